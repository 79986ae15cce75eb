package protocol

import (
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/coordd/coordd/coordinator/offsets"
)

// DecodeOffsetDelete reads an OffsetDeleteRequest v0.
func DecodeOffsetDelete(version int16, body []byte) (*offsets.DeleteRequest, error) {
	var k kmsg.OffsetDeleteRequest
	if err := decode(&k, version, body); err != nil {
		return nil, err
	}
	req := &offsets.DeleteRequest{GroupID: k.Group}
	for _, t := range k.Topics {
		ft := offsets.FetchTopic{Name: t.Topic}
		for _, p := range t.Partitions {
			ft.Partitions = append(ft.Partitions, p.Partition)
		}
		req.Topics = append(req.Topics, ft)
	}
	return req, nil
}

// AppendOffsetDelete appends the frame of an OffsetDeleteResponse; with an error of the group there are no topics.
func AppendOffsetDelete(dst []byte, h Header, resp *offsets.DeleteResponse) []byte {
	k := kmsg.NewPtrOffsetDeleteResponse()
	if resp.Err != nil {
		k.ErrorCode = int16(resp.Err.Code)
		return AppendResponse(dst, h, k)
	}
	for _, t := range resp.Topics {
		kt := kmsg.OffsetDeleteResponseTopic{Topic: t.Name}
		for _, p := range t.Partitions {
			kt.Partitions = append(kt.Partitions, kmsg.OffsetDeleteResponseTopicPartition{Partition: p.Partition, ErrorCode: int16(p.Code)})
		}
		k.Topics = append(k.Topics, kt)
	}
	return AppendResponse(dst, h, k)
}
