package upstream

import (
	"encoding/binary"
	"slices"
)

// Bounds of what racks remembers to share it. In a cluster with more ways to place replicas, what is beyond is remade.
const (
	maxRackLists  = 100_000
	maxTopicRacks = 10_000
	maxUnknown    = 10_000
)

// racks tells where replicas are, and shares equal lists between partitions and topics. It remembers the racks of brokers
// that are down: a dead broker must not change where replicas are.
type racks struct {
	of         map[int32]string
	generation uint64 // counts the changes of it
	// unknown are the brokers of replicas that are not in it: they were down ever since this process runs.
	unknown map[int32]bool
	// byReplicas are the lists by the bytes of the replicas' ids, and byRacks by what they say.
	byReplicas map[string]*rackList
	byRacks    map[string]*rackList
	// byTopic are the lists of whole topics by the numbers of their partitions' lists.
	byTopic map[string][][]string
	numbers uint32 // given so far
	key     []byte
	// leaders are where the leaders are, and numberOf the numbers that brokers' racks have there.
	leaders  leaders
	numberOf map[int32]uint16
}

// rackList is the sorted racks of the replicas of a partition.
type rackList struct {
	number uint32
	racks  []string
}

// set notes the rack of a broker.
func (r *racks) set(broker int32, rack string) {
	if was, ok := r.of[broker]; ok && was == rack {
		return
	}
	if r.of == nil {
		r.of, r.numberOf = map[int32]string{}, map[int32]uint16{}
	}
	r.of[broker] = rack
	r.numberOf[broker] = r.leaders.number(rack)
	delete(r.unknown, broker)
	r.generation++
	clear(r.byReplicas)
}

// list returns the racks of replicas, given by the bytes of their ids.
func (r *racks) list(replicas []byte) *rackList {
	if l, ok := r.byReplicas[string(replicas)]; ok {
		return l
	}
	if r.byReplicas == nil || len(r.byReplicas) >= maxRackLists {
		r.byReplicas = map[string]*rackList{}
	}
	var list []string
	for at := 0; at+4 <= len(replicas); at += 4 {
		id := int32(binary.BigEndian.Uint32(replicas[at:]))
		rack, known := r.of[id]
		switch {
		case rack != "":
			list = append(list, rack)
		case !known && len(r.unknown) < maxUnknown:
			if r.unknown == nil {
				r.unknown = map[int32]bool{}
			}
			r.unknown[id] = true
		}
	}
	slices.Sort(list)
	l := r.share(list)
	r.byReplicas[string(replicas)] = l
	return l
}

// share returns the one list that says the same.
func (r *racks) share(list []string) *rackList {
	r.key = r.key[:0]
	for _, rack := range list {
		r.key = append(binary.BigEndian.AppendUint32(r.key, uint32(len(rack))), rack...)
	}
	if l, ok := r.byRacks[string(r.key)]; ok {
		return l
	}
	if r.byRacks == nil || len(r.byRacks) >= maxRackLists {
		r.byRacks, r.byTopic = map[string]*rackList{}, map[string][][]string{}
	}
	r.numbers++
	l := &rackList{r.numbers, list}
	r.byRacks[string(r.key)] = l
	return l
}

// lists returns the racks of each partition, or nil when no replica has one.
func (r *racks) lists(partitions []*rackList) [][]string {
	r.key = r.key[:0]
	some := false
	for _, l := range partitions {
		r.key = binary.BigEndian.AppendUint32(r.key, l.number)
		some = some || len(l.racks) > 0
	}
	if !some {
		return nil
	}
	if lists, ok := r.byTopic[string(r.key)]; ok {
		return lists
	}
	lists := make([][]string, 0, len(partitions))
	for _, l := range partitions {
		lists = append(lists, l.racks)
	}
	if len(r.byTopic) < maxTopicRacks {
		r.byTopic[string(r.key)] = lists
	}
	return lists
}
