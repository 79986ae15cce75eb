package sim

import (
	"encoding/binary"
	"io"
	"net"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/protocol"
)

const (
	brokerHost = "kafka"
	brokerPort = 9092
)

// serveBroker is the one broker of the upstream as far as the gateway needs it: it says what it serves, that it
// coordinates every group, and that nobody lacks rights to settings of groups, of which it has none. Anything else ends the connection.
func serveBroker(ln net.Listener) {
	for {
		nc, err := ln.Accept()
		if err != nil {
			return
		}
		go func() {
			defer func() { _ = nc.Close() }()
			for serveBrokerRequest(nc) == nil {
			}
		}()
	}
}

func serveBrokerRequest(nc net.Conn) error {
	var prefix [4]byte
	if _, err := io.ReadFull(nc, prefix[:]); err != nil {
		return err
	}
	frame := make([]byte, binary.BigEndian.Uint32(prefix[:]))
	if _, err := io.ReadFull(nc, frame); err != nil {
		return err
	}
	h, body, err := protocol.ParseHeader(frame)
	if err != nil {
		return err
	}
	var resp kmsg.Response
	switch h.Key {
	case protocol.KeyApiVersions:
		r := kmsg.NewPtrApiVersionsResponse()
		for _, api := range [][3]int16{{8, 2, 10}, {9, 1, 10}, {10, 0, 6}, {18, 0, 4}, {32, 1, 4}, {44, 0, 1}} {
			key := kmsg.NewApiVersionsResponseApiKey()
			key.ApiKey, key.MinVersion, key.MaxVersion = api[0], api[1], api[2]
			r.ApiKeys = append(r.ApiKeys, key)
		}
		resp = r
	case protocol.KeyFindCoordinator:
		req := kmsg.NewPtrFindCoordinatorRequest()
		req.SetVersion(h.Version)
		if err := req.ReadFrom(body); err != nil {
			return err
		}
		r := kmsg.NewPtrFindCoordinatorResponse()
		r.NodeID, r.Host, r.Port = 1, brokerHost, brokerPort
		for _, key := range req.CoordinatorKeys {
			c := kmsg.NewFindCoordinatorResponseCoordinator()
			c.Key, c.NodeID, c.Host, c.Port = key, 1, brokerHost, brokerPort
			r.Coordinators = append(r.Coordinators, c)
		}
		resp = r
	case protocol.KeyDescribeConfigs:
		req := kmsg.NewPtrDescribeConfigsRequest()
		req.SetVersion(h.Version)
		if err := req.ReadFrom(body); err != nil {
			return err
		}
		r := kmsg.NewPtrDescribeConfigsResponse()
		for _, asked := range req.Resources {
			res := kmsg.NewDescribeConfigsResponseResource()
			res.ResourceType, res.ResourceName = asked.ResourceType, asked.ResourceName
			r.Resources = append(r.Resources, res)
		}
		resp = r
	case protocol.KeyIncrementalAlterConfigs:
		req := kmsg.NewPtrIncrementalAlterConfigsRequest()
		req.SetVersion(h.Version)
		if err := req.ReadFrom(body); err != nil {
			return err
		}
		r := kmsg.NewPtrIncrementalAlterConfigsResponse()
		for _, asked := range req.Resources {
			res := kmsg.NewIncrementalAlterConfigsResponseResource()
			res.ResourceType, res.ResourceName = asked.ResourceType, asked.ResourceName
			r.Resources = append(r.Resources, res)
		}
		resp = r
	default:
		return io.EOF
	}
	resp.SetVersion(h.Version)
	_, err = nc.Write(protocol.AppendResponse(nil, h, resp))
	return err
}
