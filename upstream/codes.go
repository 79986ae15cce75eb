package upstream

import (
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/coordd/coordd/coordinator"
)

// isCoordinatorTrouble says that the broker asked is not, or not yet, the coordinator: ask again.
func isCoordinatorTrouble(code int16) bool {
	switch code {
	case kerr.CoordinatorLoadInProgress.Code, kerr.CoordinatorNotAvailable.Code, kerr.NotCoordinator.Code:
		return true
	}
	return false
}

// isClaimLost says that the upstream does not know the claim's member or generation any more.
func isClaimLost(code int16) bool {
	switch code {
	case kerr.UnknownMemberID.Code, kerr.IllegalGeneration.Code, kerr.RebalanceInProgress.Code, kerr.GroupIDNotFound.Code:
		return true
	}
	return false
}

// clientCode is what a client is told about one partition: what is its own doing as it is, all else as trouble of ours
// that it retries.
func clientCode(code int16) coordinator.Code {
	switch code {
	case 0:
		return coordinator.None
	case kerr.CoordinatorLoadInProgress.Code:
		return coordinator.CoordinatorLoadInProgress
	case kerr.FencedInstanceID.Code:
		return coordinator.NotCoordinator
	case kerr.UnknownTopicOrPartition.Code, kerr.UnknownTopicID.Code,
		kerr.OffsetMetadataTooLarge.Code, kerr.InvalidCommitOffsetSize.Code, kerr.UnstableOffsetCommit.Code,
		kerr.GroupSubscribedToTopic.Code,
		// transactions: the client's producer must know
		kerr.InvalidProducerEpoch.Code, kerr.InvalidTxnState.Code, kerr.InvalidProducerIDMapping.Code,
		kerr.ConcurrentTransactions.Code, kerr.UnknownProducerID.Code, kerr.ProducerFenced.Code,
		kerr.TransactionAbortable.Code, kerr.TransactionCoordinatorFenced.Code:
		return coordinator.Code(code)
	}
	return coordinator.CoordinatorNotAvailable
}
