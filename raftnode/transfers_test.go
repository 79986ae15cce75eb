package raftnode

import (
	"errors"
	"testing"
	"testing/synctest"
)

// TestTransfersAreAwaitedAndAnswered: the library leaves a transfer that waits in its queue unanswered when it stops.
func TestTransfersAreAwaitedAndAnswered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		transfers, answer, told := newTransfers(), make(chan error), make(chan error, 2)
		go func() { told <- transfers.do(func() error { return <-answer }) }()
		go func() { told <- transfers.do(func() error { return <-answer }) }()
		synctest.Wait()
		transfers.stop()
		if err := transfers.do(func() error { return nil }); !errors.Is(err, ErrStopped) {
			t.Errorf("after the stop: %v", err)
		}
		answer <- nil
		if err := <-told; err != nil {
			t.Errorf("the outcome of the library: %v", err)
		}
		synctest.Wait()
		if isClosed(transfers.finished) {
			t.Error("finished while one runs")
		}
		transfers.abandon()
		if err := <-told; !errors.Is(err, ErrStopped) {
			t.Errorf("left unanswered by the library: %v", err)
		}
		answer <- nil
		<-transfers.finished
	})
}
