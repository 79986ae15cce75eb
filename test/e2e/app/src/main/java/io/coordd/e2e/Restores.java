package io.coordd.e2e;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.streams.processor.StandbyUpdateListener;
import org.apache.kafka.streams.processor.StateRestoreListener;
import org.apache.kafka.streams.processor.TaskId;

/** Reports what becomes of the copies of stores: what active tasks restore, and how far standbys and warm-ups come. */
final class Restores implements StateRestoreListener, StandbyUpdateListener {
    @Override
    public void onRestoreStart(final TopicPartition changelog, final String store, final long from, final long to) {
        Events.say("restoring", "topic", changelog.topic(), "partition", changelog.partition(), "offset", from, "end", to);
    }

    @Override
    public void onBatchRestored(final TopicPartition changelog, final String store, final long to, final long records) { }

    @Override
    public void onRestoreEnd(final TopicPartition changelog, final String store, final long records) {
        Events.say("restored", "topic", changelog.topic(), "partition", changelog.partition(), "records", records);
    }

    @Override
    public void onRestoreSuspended(final TopicPartition changelog, final String store, final long records) {
        Events.say("suspended", "topic", changelog.topic(), "partition", changelog.partition(), "records", records);
    }

    @Override
    public void onUpdateStart(final TopicPartition changelog, final String store, final long from) {
        Events.say("copying", "topic", changelog.topic(), "partition", changelog.partition(), "offset", from);
    }

    @Override
    public void onBatchLoaded(final TopicPartition changelog, final String store, final TaskId task, final long last, final long records, final long end) { }

    @Override
    public void onUpdateSuspended(final TopicPartition changelog, final String store, final long last, final long end, final SuspendReason reason) {
        Events.say("copied", "topic", changelog.topic(), "partition", changelog.partition(), "offset", last, "end", end, "reason", reason.name());
    }
}
