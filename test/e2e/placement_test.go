//go:build e2e

package e2e

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"

	"github.com/coordd/coordd/test/rig"
)

const (
	recoveryLag   = 500             // records: acceptable.recovery.lag of the groups under test
	filled        = 4 * recoveryLag // records in each changelog partition before others join: a restore from nothing shows
	placementRate = 300             // steps of input a second: some 250 records a second into each changelog partition
	silentAfter   = 6 * time.Second // session time-out
	takeOver      = silentAfter + 2*time.Second
	busy          = 4 * time.Second
	scaleOut      = "scale-out of 1 to 3"
	coldDelay     = 8 * time.Second // in which all instances start again
)

// TestPlacement takes stateful applications, exactly-once and with a standby for each task, through scale-out, kill -9 and a
// restart of all instances, and looks where their tasks go and what is restored there. The cases run at once.
func TestPlacement(t *testing.T) {
	dir := place(t)
	kafka, err := rig.StartKafka(t.Context(), rig.KafkaConfig{Java: java, Dir: dir, Nodes: 1, Heap: "512m", Lines: []string{
		"transaction.abort.timed.out.transaction.cleanup.interval.ms=500"}})
	if kafka != nil {
		t.Cleanup(kafka.Stop)
	}
	if err != nil {
		t.Fatal(err)
	}
	cluster := startClusterWith(t, 3, kafka.Bootstrap(), dir, map[string]any{
		"group.streams.min.session.timeout.ms":      int(silentAfter / time.Millisecond),
		"group.streams.session.timeout.ms":          int(silentAfter / time.Millisecond),
		"group.streams.min.task.offset.interval.ms": 1000,
		"group.streams.task.offset.interval.ms":     2000,
	})
	for _, c := range []struct {
		name, assignor string
		run            func(*testing.T, *placement)
	}{
		{"sticky", "sticky", placementLife},
		{"highly-available", "highly_available", placementLife},
		{"zones", "", placementZones},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			name := "placement-" + c.name
			p := &placement{subject: &subject{name: name, boot: cluster.Bootstrap(), cluster: cluster, admin: kadm.NewClient(client(t, cluster.Bootstrap())), dir: place(t)},
				assignor: c.assignor, apps: map[string]*rig.App{}}
			createTopics(t, p.boot, name, "wordcount")
			p.config(t, "streams.num.standby.replicas", "1")
			p.config(t, "streams.acceptable.recovery.lag", fmt.Sprint(recoveryLag))
			if c.assignor != "" {
				p.config(t, "streams.assignor.name", c.assignor)
			}
			c.run(t, p)
		})
	}
}

// placement is an application whose instances come and go.
type placement struct {
	*subject
	assignor string
	apps     map[string]*rig.App // those that run, by instance
	marks    map[string]int      // of events, by instance
}

// launch starts instances at once, with what state they have.
func (p *placement) launch(t *testing.T, conf map[string]string, instances ...string) {
	t.Helper()
	for _, name := range instances {
		all := map[string]string{"client.id": name, "producer.transaction.timeout.ms": "3000"}
		maps.Copy(all, conf)
		a, err := rig.StartApp(rig.AppConfig{Java: java, Dir: p.dir, Name: name, Bootstrap: p.boot, App: p.name,
			Topology: "wordcount", Guarantee: exactlyOnce, Conf: all})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(a.Kill)
		p.apps[name] = a
	}
}

// mark has restores count from now on.
func (p *placement) mark() {
	p.marks = map[string]int{}
	for name, a := range p.apps {
		p.marks[name] = a.Mark()
	}
}

// placementLife: one instance is joined by two others; one is killed and comes back; all stop and start again.
func placementLife(t *testing.T, p *placement) {
	input := feed(t, p.boot, p.name, "wordcount", placementRate, -1)
	p.launch(t, nil, "one")
	runs(t, p.apps["one"], tasksOf("wordcount"))
	p.fill(t)

	p.mark()
	seen := p.watch(t)
	p.launch(t, nil, "two", "three")
	if p.assignor == "highly_available" {
		p.waitTold(t, "warm-ups", func(g groupTold) bool {
			return slices.ContainsFunc(g.MemberList, func(m memberTold) bool { return len(m.Warmup) > 0 })
		})
	}
	before := map[string]string{"1_0": "one", "1_1": "one", "1_2": "one"}
	after := p.settle(t)
	p.checkMoves(t, scaleOut, before, after, seen.stop(t))

	p.kill(t, after)
	p.restartAll(t, input)

	steps := input.stop(t)
	verify(t, p.boot, p.name, "wordcount", steps, settled)
	closeApps(t, slices.Collect(maps.Values(p.apps)))
}

// fill waits until a restore of any store from nothing would show.
func (p *placement) fill(t *testing.T) {
	t.Helper()
	topic, ctx := p.name+"-counts-changelog", within(t, settled)
	for {
		ends, err := p.admin.ListEndOffsets(ctx, topic)
		least := int64(0)
		if err == nil && ends.Error() == nil && len(ends[topic]) == partitions {
			least = slices.MinFunc(slices.Collect(maps.Values(ends[topic])), func(a, b kadm.ListedOffset) int { return int(a.Offset - b.Offset) }).Offset
		}
		if least >= filled {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("%s has %d records: %v", topic, least, err)
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// settle waits until all instances run with all tasks split among them, each stateful one with a standby on another instance
// and nothing left to warm up, and returns which instance runs which stateful task.
func (p *placement) settle(t *testing.T) map[string]string {
	t.Helper()
	apps := slices.Collect(maps.Values(p.apps))
	ctx := within(t, settled)
	for {
		waitSplit(t, apps, tasksOf("wordcount"), settled)
		g, err := rig.DescribeGroup(p.boot, p.name, 10*time.Second)
		if err == nil && g.State == "Stable" && !warms(g) && p.covered(g) {
			return p.owners(t)
		}
		if ctx.Err() != nil {
			t.Fatalf("%s does not settle: %+v %v", p.name, g, err)
		}
		pause(ctx, 200*time.Millisecond)
	}
}

// covered says whether each stateful task has a standby, and the applications run what the group says.
func (p *placement) covered(g *rig.Group) bool {
	standbys := 0
	for _, m := range g.Members {
		a := p.apps[instanceOf(m)]
		if a == nil {
			return false
		}
		s := a.State()
		if !slices.Equal(m.Active, sortedKeys(s.Active)) || !slices.Equal(m.Standby, sortedKeys(s.Standby)) {
			return false
		}
		standbys += len(m.Standby)
	}
	return standbys == partitions
}

// warms says whether the group has warm-ups.
func warms(g *rig.Group) bool {
	for _, m := range g.Members {
		if len(m.Warmup) > 0 {
			return true
		}
	}
	return false
}

// instanceOf is the instance that a member is the one thread of.
func instanceOf(m rig.GroupMember) string {
	name, _, _ := strings.Cut(m.Client, "-StreamThread-")
	return name
}

// owners are the instances that run the stateful tasks.
func (p *placement) owners(t *testing.T) map[string]string {
	t.Helper()
	owners := map[string]string{}
	for name, a := range p.apps {
		for task := range a.State().Active {
			if strings.HasPrefix(task, "1_") {
				owners[task] = name
			}
		}
	}
	return owners
}

// standbyOf is the instance that keeps a standby of a task.
func (p *placement) standbyOf(t *testing.T, task string) string {
	t.Helper()
	for name, a := range p.apps {
		if _, keeps := a.State().Standby[task]; keeps {
			return name
		}
	}
	t.Fatalf("no instance keeps a standby of %s", task)
	return ""
}

// restored is how many records an instance restored for a stateful task since the mark, before it ran it.
func (p *placement) restored(instance, task string) (n int64) {
	for _, e := range p.apps[instance].Events(p.marks[instance]) {
		if (e.Event == "restored" || e.Event == "suspended") && fmt.Sprintf("1_%d", e.Partition) == task {
			n += e.Records
		}
	}
	return n
}

// checkMoves checks what a change did to stateful tasks. Under highly_available a task goes where a warm-up, or a standby, has
// caught up: the group shows that first, the instance runs it as it runs a standby, and nearly nothing is left to restore.
func (p *placement) checkMoves(t *testing.T, what string, before, after map[string]string, seen []sighting) {
	t.Helper()
	moved, warmed, restored := 0, 0, int64(0)
	for task, owner := range after {
		if before[task] == owner {
			continue
		}
		moved++
		n := p.restored(owner, task)
		restored += n
		t.Logf("%s moved from %s to %s, which restored %d records", task, before[task], owner, n)
		if p.assignor != "highly_available" {
			continue
		}
		if n > recoveryLag {
			t.Errorf("%s restored %d records of %s, more than %d", owner, n, task, recoveryLag)
		}
		warmup, replica := copied(seen, task, owner)
		if warmup {
			warmed++
		}
		if !replica || !standbyBefore(p.apps[owner].Events(0), p.marks[owner], task) {
			t.Errorf("%s had no copy of %s while another instance ran it: %s", owner, task, recounted(seen))
		}
	}
	switch warms := slices.ContainsFunc(seen, func(s sighting) bool { return warms(s.group) }); {
	case what == scaleOut && moved == 0:
		t.Errorf("%s: no stateful task moved: %v", what, after)
	case what == scaleOut && p.assignor == "highly_available" && warmed == 0:
		t.Errorf("%s: no warm-up became active: %s", what, recounted(seen))
	case p.assignor != "highly_available" && warms:
		t.Errorf("%s gave warm-ups: %s", p.assignor, recounted(seen))
	}
	t.Logf("FIGURE placement %s: %s, %d of %d stateful tasks moved, %d of them after a warm-up, %d records restored", p.assignor, what, moved, len(after), warmed, restored)
}

// kill ends an instance that runs stateful tasks with kill -9: who has their standbys runs them one session time-out later,
// with nearly nothing restored. Then the instance comes back.
func (p *placement) kill(t *testing.T, owners map[string]string) {
	t.Helper()
	victim := owners[sortedKeys(owners)[0]]
	heirs := map[string]string{}
	for task, owner := range owners {
		if owner == victim {
			heirs[task] = p.standbyOf(t, task)
		}
	}
	p.mark()
	begin := time.Now()
	p.apps[victim].Kill()
	delete(p.apps, victim)
	for task, heir := range heirs {
		at := p.activeAt(t, heir, task)
		n := p.restored(heir, task)
		t.Logf("FIGURE placement %s: kill -9 of the owner of %s: active at its standby after %.1f s, %d records restored", p.assignor, task, at.Sub(begin).Seconds(), n)
		switch late := at.Sub(begin); { // what else the machine does makes it longer
		case late > takeOver+busy:
			t.Errorf("%s runs %s only %v after its owner was killed, more than %v and %v", heir, task, ms(late), takeOver, busy)
		case late > takeOver:
			t.Logf("MISSED %s runs %s %v after its owner was killed: %v was wanted", heir, task, ms(late), takeOver)
		}
		if n > recoveryLag {
			t.Errorf("%s restored %d records of %s, of which it had a standby: more than %d", heir, n, task, recoveryLag)
		}
	}
	before := p.settleWithout(t)
	p.mark()
	seen := p.watch(t)
	p.launch(t, nil, victim)
	p.checkMoves(t, "come-back", before, p.settle(t), seen.stop(t))
}

// settleWithout waits until the instances that are left run all tasks, and returns which of them runs which stateful task.
func (p *placement) settleWithout(t *testing.T) map[string]string {
	t.Helper()
	waitSplit(t, slices.Collect(maps.Values(p.apps)), tasksOf("wordcount"), settled)
	return p.owners(t)
}

// activeAt waits until an instance runs a task, and returns since when.
func (p *placement) activeAt(t *testing.T, instance, task string) (at time.Time) {
	t.Helper()
	a := p.apps[instance]
	err := a.Wait(within(t, settled), task+" active", func(rig.AppState) bool {
		state, active := a.State().Threads["1"], false // as of the mark, or later
		for _, e := range a.Events(p.marks[instance]) {
			switch e.Event {
			case "thread":
				state = e.State
			case "tasks":
				active = slices.Contains(e.Active, task)
			}
			if at = time.UnixMilli(e.T); active && state == "RUNNING" {
				return true
			}
		}
		return false
	})
	if err != nil {
		t.Fatal(err)
	}
	return at
}

// restartAll stops all instances and starts them again over their state: no task goes to one that has none of it.
func (p *placement) restartAll(t *testing.T, input *feeder) {
	t.Helper()
	input.held.Store(true) // they do not stop at once, and who stops later would go on
	pause(t.Context(), time.Second)
	p.config(t, "streams.initial.rebalance.delay.ms", fmt.Sprint(coldDelay.Milliseconds()))
	var names []string
	for name, a := range p.apps {
		names = append(names, name)
		unbroken(t, a)
	}
	closeApps(t, slices.Collect(maps.Values(p.apps)))
	p.launch(t, nil, names...)
	input.held.Store(false)
	p.marks = map[string]int{}
	for task, owner := range p.settle(t) {
		n := p.restored(owner, task)
		t.Logf("after a restart of all, %s runs at %s, which restored %d records", task, owner, n)
		switch {
		case n <= recoveryLag:
		case p.assignor != "highly_available" && p.apart() > coldDelay-2*time.Second: // the first target was made without the last one
			t.Logf("MISSED %s restored %d records of %s: instances started %v apart", owner, n, task, ms(p.apart()))
		default:
			t.Errorf("%s restored %d records of %s: another instance has its state", owner, n, task)
		}
	}
}

// apart is the time between the starts of the first and the last instance.
func (p *placement) apart() time.Duration {
	var starts []int64
	for _, a := range p.apps {
		starts = append(starts, a.Events(0)[0].T)
	}
	return time.Duration(slices.Max(starts)-slices.Min(starts)) * time.Millisecond
}
