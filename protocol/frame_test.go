package protocol

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func TestParseHeader(t *testing.T) {
	t.Parallel()
	formatter := kmsg.NewRequestFormatter(kmsg.FormatterClientID("client-α"))
	for key := int16(0); key <= kmsg.MaxKey; key++ {
		for v := int16(0); v <= kmsg.RequestForKey(key).MaxVersion(); v++ {
			req := kmsg.RequestForKey(key)
			req.SetVersion(v)
			frame := formatter.AppendRequest(nil, req, 7)[4:]
			h, body, err := ParseHeader(frame)
			if key == KeyControlledShutdown && v == 0 {
				continue // kmsg writes no body
			}
			if want := (Header{key, v, 7, "client-α"}); err != nil || h != want {
				t.Fatalf("key %d v%d: %+v, %v; want %+v", key, v, h, err, want)
			}
			if want := req.AppendTo(nil); !bytes.Equal(body, want) {
				t.Fatalf("key %d v%d: body %x, want %x", key, v, body, want)
			}
		}
	}
}

func TestParseHeaderOddities(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		frame []byte
		want  Header
		body  string
		bad   bool
	}{
		{"null client id", []byte("\x00\x10\x00\x00\x00\x00\x00\x01\xff\xffrest"), Header{16, 0, 1, ""}, "rest", false},
		{"tags are skipped", []byte("\x00\x58\x00\x01\x00\x00\x00\x01\x00\x00\x01\x05\x02abrest"), Header{88, 1, 1, ""}, "rest", false},
		{"unknown key", []byte("\x03\xe8\x00\x09\x00\x00\x00\x01\x00\x01crest"), Header{1000, 9, 1, "c"}, "rest", false},
		{"negative key", []byte("\xff\xff\x00\x09\x00\x00\x00\x01\x00\x01crest"), Header{-1, 9, 1, "c"}, "rest", false},
		{"header v0", []byte("\x00\x07\x00\x00\x00\x00\x00\x01rest"), Header{7, 0, 1, ""}, "rest", false},
		{"cut", []byte("\x00\x10\x00\x00\x00\x00\x00"), Header{}, "", true},
		{"client id too long", []byte("\x00\x10\x00\x00\x00\x00\x00\x01\x7f\xffx"), Header{}, "", true},
		{"endless tags", []byte("\x00\x58\x00\x01\x00\x00\x00\x01\x00\x00\xff\xff\xff\xff\x0f"), Header{}, "", true},
		{"empty", nil, Header{}, "", true},
	} {
		h, body, err := ParseHeader(c.frame)
		if (err != nil) != c.bad {
			t.Errorf("%s: error %v", c.name, err)
		}
		if !c.bad && (h != c.want || string(body) != c.body) {
			t.Errorf("%s: %+v %q", c.name, h, body)
		}
	}
}

func FuzzParseHeader(f *testing.F) {
	f.Add([]byte("\x00\x58\x00\x01\x00\x00\x00\x01\x00\x00\x00"))
	f.Add([]byte("\x00\x12\x00\x04\x00\x00\x00\x01\x00\x01c\x00\x01\x01\x00"))
	f.Fuzz(func(t *testing.T, frame []byte) {
		_, body, err := ParseHeader(frame)
		if err == nil && len(body) > len(frame)-8 {
			t.Fatal("body larger than what is left of the frame")
		}
	})
}
