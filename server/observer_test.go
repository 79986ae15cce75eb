package server

import (
	"bytes"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/hashicorp/go-hclog"

	"github.com/coordd/coordd/coordinator"
	"github.com/coordd/coordd/coordinator/shard"
)

func TestRefusalsDoNotFillTheLog(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		o := newObserver(hclog.New(&hclog.LoggerOptions{Output: &out}), nil)
		refuse := func(code coordinator.Code, times int) {
			for range times {
				o.event(0, shard.Event{Group: "g", Member: "m", Refused: &coordinator.Error{Code: code}})
			}
		}
		refuse(coordinator.UnknownMemberID, 1000)
		refuse(coordinator.InvalidRequest, 1)
		time.Sleep(time.Second)
		refuse(coordinator.UnknownMemberID, 1000)
		if n := strings.Count(out.String(), "refused"); n != 3 || !strings.Contains(out.String(), "left-out=999") {
			t.Errorf("%d lines:\n%s", n, out.String())
		}
	})
}
