package protocol

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator"
)

// Coordinator types of FindCoordinator (FindCoordinatorRequest.CoordinatorType).
const (
	CoordinatorOfGroup       int8 = 0
	CoordinatorOfTransaction int8 = 1
	CoordinatorOfShare       int8 = 2
)

// FindCoordinator is a FindCoordinatorRequest; below v4 there is exactly one key.
type FindCoordinator struct {
	Type int8
	Keys []string
}

// Found is where the coordinator of a key is. With an error Node is -1.
type Found struct {
	Key  string
	Node int32
	Host string
	Port int32
	Err  *coordinator.Error
}

// NotFound is the answer for a key whose coordinator cannot be told.
func NotFound(key string, err *coordinator.Error) Found {
	return Found{Key: key, Node: -1, Port: -1, Err: err}
}

// DecodeFindCoordinator reads a FindCoordinatorRequest v0–6.
func DecodeFindCoordinator(version int16, body []byte) (*FindCoordinator, error) {
	var k kmsg.FindCoordinatorRequest
	if err := decode(&k, version, body); err != nil {
		return nil, err
	}
	req := &FindCoordinator{Type: k.CoordinatorType, Keys: k.CoordinatorKeys}
	if version < 4 {
		req.Keys = []string{k.CoordinatorKey}
	}
	return req, nil
}

// AppendFindCoordinatorRequest appends the body of a request for these keys; below v4 only the first is asked for.
func AppendFindCoordinatorRequest(dst []byte, version int16, req *FindCoordinator) []byte {
	k := kmsg.NewPtrFindCoordinatorRequest()
	k.Version, k.CoordinatorType = version, req.Type
	if version >= 4 {
		k.CoordinatorKeys = req.Keys
	} else if len(req.Keys) > 0 {
		k.CoordinatorKey = req.Keys[0]
	}
	return k.AppendTo(dst)
}

// ReadFindCoordinatorResponse reads the body of an upstream's answer to req; its addresses are the upstream's own.
func ReadFindCoordinatorResponse(version int16, body []byte, req *FindCoordinator) ([]Found, error) {
	k := kmsg.NewPtrFindCoordinatorResponse()
	if err := decodeResponse(k, version, body); err != nil {
		return nil, err
	}
	if version < 4 {
		if len(req.Keys) != 1 {
			return nil, ErrMalformed
		}
		return []Found{found(req.Keys[0], k.NodeID, k.Host, k.Port, k.ErrorCode, k.ErrorMessage)}, nil
	}
	var out []Found
	for _, c := range k.Coordinators {
		out = append(out, found(c.Key, c.NodeID, c.Host, c.Port, c.ErrorCode, c.ErrorMessage))
	}
	return out, nil
}

func found(key string, node int32, host string, port int32, code int16, message *string) Found {
	f := Found{Key: key, Node: node, Host: host, Port: port}
	if code != 0 {
		f.Err = &coordinator.Error{Code: coordinator.Code(code)}
		if message != nil {
			f.Err.Message = *message
		}
	}
	return f
}

// AppendFindCoordinator appends the frame of a FindCoordinatorResponse v0–6; below v4 with the first of the answers.
func AppendFindCoordinator(dst []byte, h Header, answers []Found) []byte {
	k := kmsg.NewPtrFindCoordinatorResponse()
	for i := range answers {
		a := &answers[i]
		var code int16
		var message *string
		if a.Err != nil {
			code, message = int16(a.Err.Code), nullable(a.Err.Message)
		}
		if h.Version < 4 {
			k.ErrorCode, k.ErrorMessage, k.NodeID, k.Host, k.Port = code, message, a.Node, a.Host, a.Port
			break
		}
		k.Coordinators = append(k.Coordinators, kmsg.FindCoordinatorResponseCoordinator{
			Key: a.Key, NodeID: a.Node, Host: a.Host, Port: a.Port, ErrorCode: code, ErrorMessage: message,
		})
	}
	return AppendResponse(dst, h, k)
}
