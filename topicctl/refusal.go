package topicctl

import (
	"errors"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Refusal is a Source's error for topics that were not created. Its text is told to members and must not change from
// one attempt to the next while its reason is the same.
type Refusal struct {
	// Reason is Kafka's name of the error, such as POLICY_VIOLATION, or [Unreachable].
	Reason string
	// Message is what the cluster says, or what its error means; it may be empty.
	Message string
	// Advice is what a person can do; it may be empty.
	Advice string
	// RetryAfter is how long the cluster wants no other attempt.
	// It is believed up to [MaxRetryAfter].
	RetryAfter time.Duration
	// NotSent says that the cluster was not asked, since an earlier RetryAfter is not over.
	NotSent bool
	// Err is the failure behind it, for the log; it may be nil.
	Err error
}

// Reasons of refusals that no cluster gave.
const (
	// Unreachable: the cluster did not answer.
	Unreachable = "UNREACHABLE"
	// NotShown: the cluster says that the topic exists and does not show it.
	NotShown = "NOT_SHOWN"
	// Unanswered: the cluster's answer left the topic out.
	Unanswered = "UNANSWERED"
	// Throttled: the cluster wants no request for now, whatever it is for.
	Throttled = "THROTTLED"
	// otherReason stands for an error that is no Refusal.
	otherReason = "OTHER"
)

// MaxRetryAfter bounds the time for which a cluster is believed that it wants no attempt.
const MaxRetryAfter = time.Hour

// maxMessage bounds what is told of a cluster's message, in bytes.
const maxMessage = 300

// Error implements error: the text that members and people are told.
func (r *Refusal) Error() string {
	text := r.Reason
	if r.Message != "" {
		text += ": " + cut(r.Message)
	}
	if r.Advice != "" {
		text += "; " + r.Advice
	}
	return text
}

// Unwrap returns the failure behind it.
func (r *Refusal) Unwrap() error { return r.Err }

// cut makes a message of others fit to be told: bounded, on one line, without control characters.
func cut(s string) string {
	s = strings.Map(func(r rune) rune {
		switch {
		case r == utf8.RuneError:
			return -1
		case unicode.IsControl(r):
			return ' '
		}
		return r
	}, s)
	s = strings.TrimRight(strings.Join(strings.Fields(s), " "), ".")
	if len(s) <= maxMessage {
		return s
	}
	end := maxMessage
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}

// refusalOf is the Refusal in an error, or one made of it.
func refusalOf(err error) *Refusal {
	var r *Refusal
	if errors.As(err, &r) {
		return r
	}
	return &Refusal{Reason: otherReason, Message: err.Error(), Err: err}
}
