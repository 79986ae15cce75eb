package convergence

import (
	"fmt"

	"github.com/coordd/coordd/assignor"
	"github.com/coordd/coordd/config"
	"github.com/coordd/coordd/coordinator"
)

// scenario is a change of a running app.
type scenario struct {
	name      string
	processes int
	standbys  []int32 // with how many it is played
	play      func(w *world) error
	// silence says that a member's death is known by the session time-out only.
	silence bool
	// idle says that the app gets nothing to process meanwhile.
	idle bool
	// standbysAfter is how many standbys there shall be from then on; nil: as many as before.
	standbysAfter *int32
}

var scenarios = []scenario{
	{name: "scale-out, 3 to 6 processes", processes: 3, standbys: []int32{0, 1}, play: scaleOut},
	{name: "scale-in, 6 to 3 processes", processes: 6, standbys: []int32{0, 1}, play: scaleIn},
	{name: "rolling restart, state on disk", processes: 4, standbys: []int32{0, 1}, play: func(w *world) error { return roll(w, true) }},
	{name: "the same while nothing is to process", processes: 4, standbys: []int32{0, 1}, idle: true, play: func(w *world) error { return roll(w, true) }},
	{name: "rolling restart, state lost", processes: 4, standbys: []int32{0, 1}, play: func(w *world) error { return roll(w, false) }},
	{name: "a process is killed", processes: 4, standbys: []int32{0, 1}, play: crash, silence: true},
	{name: "killed, back after 10 s with its disk", processes: 4, standbys: []int32{0, 1}, play: func(w *world) error { return crashAndReturn(w, true) }, silence: true},
	{name: "killed, back after 10 s, state lost", processes: 4, standbys: []int32{0, 1}, play: func(w *world) error { return crashAndReturn(w, false) }, silence: true},
	{name: "one more standby", processes: 4, standbys: []int32{0}, standbysAfter: ptr(1)},
	{name: "one standby less", processes: 4, standbys: []int32{1}, standbysAfter: ptr(0)},
}

// scaleOut starts processes 10 s apart.
func scaleOut(w *world) error {
	for i := range 3 {
		w.start(newProcess(processName(len(w.processes)), threadsPerProcess), false)
		if i < 2 {
			if err := w.run(10_000); err != nil {
				return err
			}
		}
	}
	return nil
}

// scaleIn stops the youngest processes, each when the group is at rest after the one before.
func scaleIn(w *world) error {
	for i := range 3 {
		if i > 0 {
			if err := w.quiet(); err != nil {
				return err
			}
		}
		if err := w.stop(w.processes[len(w.processes)-1-i]); err != nil {
			return err
		}
	}
	return nil
}

// roll restarts every process, each when the group is at rest after the one before. A restart takes 10 s.
func roll(w *world, withState bool) error {
	for i, p := range w.processes {
		if i > 0 {
			if err := w.quiet(); err != nil {
				return err
			}
		}
		if err := w.stop(p); err != nil {
			return err
		}
		if err := w.run(10_000); err != nil {
			return err
		}
		w.start(p, withState)
	}
	return nil
}

func crash(w *world) error {
	w.kill(w.processes[1])
	return nil
}

// crashAndReturn kills a process that comes back under its process id, with its state or, as under exactly_once_v2, without.
func crashAndReturn(w *world, withState bool) error {
	p := w.processes[1]
	w.kill(p)
	if err := w.run(10_000); err != nil {
		return err
	}
	if !withState {
		clear(p.disk)
	}
	w.start(p, true)
	return nil
}

func ptr(n int32) *int32 { return &n }

func processName(i int) string { return fmt.Sprintf("p%d", i+1) }

// settings are the shipped ones. Members are simulated as such whose heartbeats cannot be held: it is the slower case.
func settings(standbys int32) (coordinator.GroupSettings, error) {
	node, _, err := config.Load(config.Sources{Set: []string{
		"node.id=0", "data.dir=/x", "raft.listen=127.0.0.1:9640", "client.listen=127.0.0.1:9092", "admin.listen=127.0.0.1:9644", "upstream.bootstrap.servers=kafka:9092",
	}})
	if err != nil {
		return coordinator.GroupSettings{}, err
	}
	s, _ := node.Streams.Effective(nil)
	out := *s
	out.NumStandbyReplicas = standbys
	return out, nil
}

// outcome is what a scenario came to.
type outcome struct {
	measures
	epochs  int32
	settled int64 // ms from the beginning of the change until the group was at rest
}

// play runs a scenario from a group at rest whose copies all have their state.
func play(s *scenario, a assignor.Assignor, standbys int32) (*world, *outcome, error) {
	set, err := settings(standbys)
	if err != nil {
		return nil, nil, err
	}
	w := newWorld(set, a, 12, 24)
	w.group.settings.AssignorName = a.Name()
	if err := w.prepare(s.processes); err != nil {
		return w, nil, fmt.Errorf("before the change: %w", err)
	}
	if s.idle {
		w.growth = 0
		if err := w.run(restMs); err != nil {
			return w, nil, err
		}
	}
	w.measured.begin(w)
	w.group.causes = nil
	if s.standbysAfter != nil {
		w.group.settings.NumStandbyReplicas = *s.standbysAfter
	} else if err := s.play(w); err != nil {
		return w, nil, err
	}
	since, err := w.settle()
	if err != nil {
		return w, nil, err
	}
	return w, &outcome{measures: w.measured, epochs: w.group.hard().Epoch() - w.measured.firstEpoch, settled: since - w.measured.startedAt}, nil
}

// prepare starts the app, a process each second, and lets it run until it has much state and has reported where it is.
func (w *world) prepare(processes int) error {
	for i := range processes {
		w.start(newProcess(processName(i), threadsPerProcess), false)
		if err := w.run(1000); err != nil {
			return err
		}
	}
	if _, err := w.settle(); err != nil {
		return err
	}
	for t := range w.ends {
		w.ends[t] += changelogRecords
	}
	for _, p := range w.processes {
		for t := range p.copies {
			p.disk[t].pos = w.ends[t]
		}
		p.checkpoint()
	}
	return w.run(restMs)
}
