package topicctl

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coordd/coordd/topology"
)

// fakeSource is a cluster in memory. Its answers can be made to fail, and its calls are counted.
type fakeSource struct {
	mu       sync.Mutex
	brokers  []Broker
	topics   map[string]topology.Topic
	hidden   map[string]bool // topics that one answer leaves out
	down     error
	refuse   map[string]error
	poison   string          // a call with this topic fails as a whole
	secret   map[string]bool // topics that exist and are not shown
	polls    int
	creates  [][]string
	inFlight int
	overlaps int
	block    chan struct{} // CreateTopics waits for it when set
}

func newFakeSource() *fakeSource {
	return &fakeSource{
		brokers: []Broker{{ID: 2, Host: "b2", Port: 9092}, {ID: 1, Host: "b1", Port: 9092}},
		topics:  map[string]topology.Topic{}, refuse: map[string]error{}, hidden: map[string]bool{},
	}
}

func (f *fakeSource) put(name string, partitions int32) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.topics[name] = topology.Topic{Name: name, ID: [16]byte{byte(len(f.topics) + 1)}, Partitions: partitions}
}

func (f *fakeSource) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

func (f *fakeSource) Metadata(context.Context) (*Snapshot, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.polls++
	if f.down != nil {
		return nil, f.down
	}
	s := &Snapshot{ClusterID: "c", ControllerID: 1, Brokers: slices.Clone(f.brokers)}
	for name, t := range f.topics {
		if !f.hidden[name] && !f.secret[name] {
			s.Topics = append(s.Topics, t)
		}
	}
	clear(f.hidden)
	return s, nil
}

func (f *fakeSource) CreateTopics(ctx context.Context, topics []topology.InternalTopic) (map[string]error, error) {
	f.mu.Lock()
	block := f.block
	f.inFlight++
	if f.inFlight > 1 {
		f.overlaps++
	}
	f.mu.Unlock()
	if block != nil {
		<-block
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.inFlight--
	var names []string
	for _, t := range topics {
		names = append(names, t.Name)
	}
	f.creates = append(f.creates, names)
	if f.down != nil {
		return nil, f.down
	}
	if slices.Contains(names, f.poison) {
		return nil, &Refusal{Reason: Unreachable}
	}
	out := map[string]error{}
	for _, t := range topics {
		out[t.Name] = f.refuse[t.Name]
		if _, ok := f.topics[t.Name]; ok {
			out[t.Name] = ErrTopicExists
		} else if out[t.Name] == nil {
			f.topics[t.Name] = topology.Topic{Name: t.Name, Partitions: max(1, t.Partitions)}
		}
	}
	return out, nil
}

func (f *fakeSource) attempts() (polls, creates int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.polls, len(f.creates)
}

// pass lets time pass, and waits for what others do at its end, so that what they wrote can be read.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// start runs a watcher and a creator until the test ends.
func start(t *testing.T, f *fakeSource, change ...func(*CreatorConfig)) (*Watcher, *Creator) {
	t.Helper()
	w := NewWatcher(WatcherConfig{Source: f})
	cfg := CreatorConfig{Source: f, Watcher: w}
	for _, set := range change {
		set(&cfg)
	}
	c := NewCreator(cfg)
	ctx, cancel := context.WithCancel(context.Background())
	go w.Run(ctx)
	go c.Run(ctx)
	t.Cleanup(func() {
		cancel()
		synctest.Wait()
	})
	synctest.Wait()
	return w, c
}
