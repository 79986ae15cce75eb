package topicctl

import (
	"slices"

	"github.com/hashicorp/go-hclog"

	"github.com/coordd/coordd/topology"
)

// maxLogged bounds the topics that one line of the log names.
const maxLogged = 10

// logged collects what an attempt has to tell, so that many topics with one reason make one line.
type logged struct {
	made    []string
	reasons []string // in the order in which they came up
	topics  map[string][]string
	causes  map[string]error
}

func newLogged() *logged {
	return &logged{topics: map[string][]string{}, causes: map[string]error{}}
}

func (l *logged) created(t topology.InternalTopic) { l.made = append(l.made, t.Name) }

func (l *logged) failed(topic, text string, r *Refusal) {
	if l.topics[text] == nil {
		l.reasons = append(l.reasons, text)
	}
	l.topics[text] = append(l.topics[text], topic)
	l.causes[text] = r.Err
}

func (l *logged) write(log hclog.Logger) {
	if len(l.made) > 0 {
		log.Info("created internal topics", listed(l.made)...)
	}
	for _, text := range l.reasons {
		args := append(listed(l.topics[text]), "reason", text)
		if err := l.causes[text]; err != nil {
			args = append(args, "error", cut(err.Error()))
		}
		log.Warn("cannot create internal topics", args...)
	}
}

func listed(topics []string) []any {
	slices.Sort(topics)
	if n := len(topics) - maxLogged; n > 0 {
		return []any{"topics", topics[:maxLogged], "more", n}
	}
	return []any{"topics", topics}
}
