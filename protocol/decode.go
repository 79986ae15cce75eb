package protocol

import "github.com/twmb/franz-go/pkg/kmsg"

// decode reads a request body of this version with kmsg. Strings are copied, so the request does not alias the body.
// kmsg checks every array length against what is left of the body before it allocates; TestDecodersBoundMemory and the
// fuzz targets hold it to that.
func decode(req kmsg.Request, version int16, body []byte) error {
	if version < 0 || version > req.MaxVersion() {
		return ErrMalformed
	}
	req.SetVersion(version)
	if err := req.ReadFrom(body); err != nil {
		return ErrMalformed
	}
	return nil
}

// TopicNames resolves topic ids of requests that name topics by id; it reports false for an id that is not known.
type TopicNames func(id [16]byte) (name string, ok bool)

// nullable returns nil for an empty message, as Kafka sends "no message".
func nullable(message string) *string {
	if message == "" {
		return nil
	}
	return &message
}

// decodeResponse reads the body of an upstream's answer.
func decodeResponse(resp kmsg.Response, version int16, body []byte) error {
	resp.SetVersion(version)
	if err := resp.ReadFrom(body); err != nil {
		return ErrMalformed
	}
	return nil
}
