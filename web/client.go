package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Client reads the admin port of a node.
type Client struct {
	// Address is host:port.
	Address string
	// Transport is nil for plain TCP.
	Transport http.RoundTripper
}

// Status is the cluster as the node sees it.
func (c Client) Status(ctx context.Context) (ClusterStatus, error) {
	var s ClusterStatus
	return s, c.get(ctx, "/v1/status", &s)
}

// Node is the node alone.
func (c Client) Node(ctx context.Context) (NodeStatus, error) {
	var s NodeStatus
	return s, c.get(ctx, "/v1/node", &s)
}

// Groups lists the groups, those in the given state where it is not empty.
func (c Client) Groups(ctx context.Context, state string) ([]GroupSummary, error) {
	var list []GroupSummary
	return list, c.get(ctx, "/v1/groups?state="+url.QueryEscape(state), &list)
}

// Group describes one group. It fails with an error that is ErrNoGroup where there is no such group.
func (c Client) Group(ctx context.Context, id string) (GroupDetail, error) {
	var g GroupDetail
	err := c.get(ctx, "/v1/group?id="+url.QueryEscape(id), &g)
	return g, absent(err)
}

// absent makes an error ErrNoGroup where the node answered that there is no such group.
func absent(err error) error {
	var answered *statusError
	if errors.As(err, &answered) && answered.status == http.StatusNotFound {
		answered.is = ErrNoGroup
	}
	return err
}

// statusError is an answer other than 200.
type statusError struct {
	status int
	text   string
	is     error
}

func (e *statusError) Error() string { return e.text }

func (e *statusError) Unwrap() error { return e.is }

const requestTimeout = 5 * time.Second

func (c Client) get(ctx context.Context, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	return c.do(ctx, http.MethodGet, path, nil, into)
}

// question is get for what may be refused with a reason, within a time of its own.
func (c Client) question(ctx context.Context, within time.Duration, path string, into any) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return refusal(c.do(ctx, http.MethodGet, path, nil, into))
}

// refusal makes an error a [Refusal] where the node answered.
func refusal(err error) error {
	var answered *statusError
	if errors.As(err, &answered) {
		return &Refusal{Kind: RefusalKind(answered.status), Text: answered.text}
	}
	return err
}

// do sends a request, with a body of JSON where there is one.
func (c Client) do(ctx context.Context, method, path string, body []byte, into any) error {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+c.Address+path, bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("admin address %q is not host:port: %w", c.Address, err)
	}
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := (&http.Client{Transport: c.Transport}).Do(request)
	if err != nil {
		return fmt.Errorf("no answer from the admin port at %s (is the node up, and is --admin right?): %w", c.Address, err)
	}
	defer func() { _ = response.Body.Close() }()
	decoder := json.NewDecoder(response.Body)
	if response.StatusCode != http.StatusOK {
		var p Problem
		if decoder.Decode(&p) == nil && p.Error != "" {
			return &statusError{status: response.StatusCode, text: p.Error}
		}
		return fmt.Errorf("the admin port at %s answered %s to %s", c.Address, response.Status, path)
	}
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("the admin port at %s did not answer as coordd does: %w", c.Address, err)
	}
	return nil
}
