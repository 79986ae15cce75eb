package seglog

import (
	"sync"

	"github.com/hashicorp/raft"
)

// cacheEntries bounds how many entries a group's cache holds.
const cacheEntries = 1024

// cache holds the last entries of a group, so that replicators do not read back what was just written.
type cache struct {
	limit int // bytes of data, except that the last entry is always held

	mu      sync.RWMutex
	entries [cacheEntries]*raft.Log // by index modulo; an entry counts only when its index is that
	first   uint64                  // no entry below is held
	last    uint64                  // no entry above is held; 0 when there is none
	bytes   int
}

func (c *cache) get(i uint64) *raft.Log {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return c.at(i)
}

func (c *cache) at(i uint64) *raft.Log {
	if e := c.entries[i%cacheEntries]; e != nil && e.Index == i {
		return e
	}
	return nil
}

// put adds entries; each replaces what is held from its index on.
func (c *cache) put(logs []*raft.Log) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, l := range logs {
		c.cut(l.Index)
		if c.last != 0 && l.Index > c.last+1 {
			c.drop(c.last)
		}
		if c.last == 0 {
			c.first = l.Index
		}
		c.clear(int(l.Index % cacheEntries))
		c.entries[l.Index%cacheEntries] = l
		c.bytes += len(l.Data) + len(l.Extensions)
		c.last = l.Index
		for c.first < c.last && (c.bytes > c.limit || c.last-c.first >= cacheEntries) {
			c.drop(c.first)
		}
	}
}

// remove forgets the entries from lo to hi, which are the first or the last of the group.
func (c *cache) remove(lo, hi uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if lo <= c.first {
		c.drop(hi)
	} else if hi >= c.last {
		c.cut(lo)
	}
}

func (c *cache) cut(from uint64) {
	for c.last != 0 && c.last >= from {
		c.forget(c.last)
		if c.last == c.first {
			c.first, c.last = 0, 0
		} else {
			c.last--
		}
	}
}

func (c *cache) drop(upto uint64) {
	for c.last != 0 && c.first <= upto {
		c.forget(c.first)
		if c.last == c.first {
			c.first, c.last = 0, 0
		} else {
			c.first++
		}
	}
}

func (c *cache) forget(i uint64) {
	if c.at(i) != nil {
		c.clear(int(i % cacheEntries))
	}
}

func (c *cache) clear(slot int) {
	if e := c.entries[slot]; e != nil {
		c.bytes -= len(e.Data) + len(e.Extensions)
		c.entries[slot] = nil
	}
}
