package coordinator

import "fmt"

// Code is a Kafka protocol error code (org.apache.kafka.common.protocol.Errors).
type Code int16

// Error codes that a coordinator answers.
const (
	None                        Code = 0
	UnknownServerError          Code = -1
	UnknownTopicOrPartition     Code = 3
	OffsetMetadataTooLarge      Code = 12
	CoordinatorLoadInProgress   Code = 14
	CoordinatorNotAvailable     Code = 15
	NotCoordinator              Code = 16
	IllegalGeneration           Code = 22
	InconsistentGroupProtocol   Code = 23
	InvalidGroupID              Code = 24
	UnknownMemberID             Code = 25
	InvalidCommitOffsetSize     Code = 28
	TopicAuthorizationFailed    Code = 29
	GroupAuthorizationFailed    Code = 30
	ClusterAuthorizationFailed  Code = 31
	UnsupportedVersion          Code = 35
	InvalidConfig               Code = 40
	InvalidRequest              Code = 42
	UnsupportedForMessageFormat Code = 43
	NonEmptyGroup               Code = 68
	GroupIDNotFound             Code = 69
	GroupMaxSizeReached         Code = 81
	FencedInstanceID            Code = 82
	GroupSubscribedToTopic      Code = 86
	UnstableOffsetCommit        Code = 88
	UnknownTopicID              Code = 100
	FencedMemberEpoch           Code = 110
	UnreleasedInstanceID        Code = 111
	StaleMemberEpoch            Code = 113
	StreamsInvalidTopology      Code = 130
	StreamsInvalidTopologyEpoch Code = 131
	StreamsTopologyFenced       Code = 132
	GroupDeletionFailed         Code = 134
)

// Error is an answer of the coordinator other than success. Message is for people; it may be empty.
type Error struct {
	Code    Code
	Message string
	// NotStarted says of trouble of coordd's own (14, 15 and 16) that the request was refused before anything was done for
	// it. Without it the outcome is not known.
	NotStarted bool
}

// Error implements error.
func (e *Error) Error() string { return fmt.Sprintf("error %d: %s", e.Code, e.Message) }

// Errorf makes an Error with a formatted message.
func Errorf(code Code, format string, args ...any) *Error {
	return &Error{Code: code, Message: fmt.Sprintf(format, args...)}
}
