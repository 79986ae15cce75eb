import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.protocol.types.RawTaggedField;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.generated.*;
import org.apache.kafka.coordinator.group.streams.MemberState;
import org.apache.kafka.coordinator.group.streams.StreamsCoordinatorRecordHelpers;
import org.apache.kafka.coordinator.group.streams.StreamsGroupMember;
import org.apache.kafka.coordinator.group.streams.TasksTuple;
import org.apache.kafka.coordinator.group.streams.TasksTupleWithEpochs;
import org.apache.kafka.server.common.ApiMessageAndVersion;

/**
 * Writes and reads samples of streams group and offset records with Apache Kafka's own classes.
 *
 *   java -cp "$libs/*" RecordGolden.java write DIR   one file a sample, NAME.bin
 *   java -cp "$libs/*" RecordGolden.java read DIR    prints what Kafka reads from each file, one JSON object a line, and
 *                                                    fails when Kafka would write other bytes for it
 *
 * A file holds the key's length (int32), the key, the value's length (int32, -1 for a tombstone) and the value.
 */
public class RecordGolden {
    private static final GroupCoordinatorRecordSerde SERDE = new GroupCoordinatorRecordSerde();

    public static void main(String[] args) throws Exception {
        if (args.length != 2) {
            System.err.println("usage: RecordGolden write|read DIR");
            System.exit(2);
        }
        Path dir = Path.of(args[1]);
        switch (args[0]) {
            case "write" -> write(dir);
            case "read" -> read(dir);
            default -> throw new IllegalArgumentException(args[0]);
        }
    }

    private static void write(Path dir) throws IOException {
        Files.createDirectories(dir);
        for (Map.Entry<String, CoordinatorRecord> e : samples().entrySet())
            Files.write(dir.resolve(e.getKey() + ".bin"), encode(e.getValue()));
    }

    private static byte[] encode(CoordinatorRecord record) throws IOException {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        DataOutputStream out = new DataOutputStream(bytes);
        for (byte[] part : Arrays.asList(SERDE.serializeKey(record), SERDE.serializeValue(record))) {
            out.writeInt(part == null ? -1 : part.length);
            if (part != null) out.write(part);
        }
        return bytes.toByteArray();
    }

    private static void read(Path dir) throws IOException {
        List<Path> files;
        try (Stream<Path> list = Files.list(dir)) {
            files = list.filter(f -> f.toString().endsWith(".bin")).sorted().collect(Collectors.toList());
        }
        ObjectMapper json = new ObjectMapper();
        boolean same = true;
        for (Path file : files) {
            byte[] bytes = Files.readAllBytes(file);
            DataInputStream in = new DataInputStream(new ByteArrayInputStream(bytes));
            ByteBuffer key = ByteBuffer.wrap(in.readNBytes(in.readInt()));
            int size = in.readInt();
            ByteBuffer value = size < 0 ? null : ByteBuffer.wrap(in.readNBytes(size));
            CoordinatorRecord record = SERDE.deserialize(key, value);
            ObjectNode line = json.createObjectNode();
            line.put("sample", file.getFileName().toString().replace(".bin", ""));
            line.set("key", CoordinatorRecordJsonConverters.writeRecordKeyAsJson(record.key()));
            if (record.value() != null)
                line.set("value", CoordinatorRecordJsonConverters.writeRecordValueAsJson(
                    record.value().message(), record.value().version()));
            System.out.println(line);
            if (key.hasRemaining() || value != null && value.hasRemaining() || in.available() > 0 || !Arrays.equals(bytes, encode(record))) {
                System.err.println(file + ": Kafka writes other bytes");
                same = false;
            }
        }
        if (!same) System.exit(1);
    }

    private static Map<String, CoordinatorRecord> samples() {
        Map<String, CoordinatorRecord> s = new TreeMap<>();
        offsets(s);
        groups(s);
        members(s);
        targets(s);
        currents(s);
        topologies(s);
        return s;
    }

    private static void offsets(Map<String, CoordinatorRecord> s) {
        OffsetCommitValue full = new OffsetCommitValue().setOffset(42).setLeaderEpoch(7).setMetadata("AgAAAZ3cZ0CLAAAAAA==")
            .setCommitTimestamp(1790000000123L).setTopicId(new Uuid(0x0102030405060708L, 0x090a0b0c0d0e0f10L));
        s.put("01-full", offset(4, full));
        s.put("01-no-topic-id", offset(4, full.duplicate().setTopicId(Uuid.ZERO_UUID)));
        s.put("01-least", offset(4, new OffsetCommitValue().setOffset(-1).setLeaderEpoch(-1).setMetadata("").setCommitTimestamp(0)));
        s.put("01-unicode", CoordinatorRecord.record(new OffsetCommitKey().setGroup("группа").setTopic("тема-Ω").setPartition(Integer.MAX_VALUE),
            new ApiMessageAndVersion(full.duplicate().setMetadata("メタ😀"), (short) 4)));
        s.put("01-expiring", offset(1, full.duplicate().setExpireTimestamp(1790000099999L)));
        s.put("01-version-0", offset(0, full));
        s.put("01-version-2", offset(2, full));
        s.put("01-version-3", offset(3, full));
        s.put("01-legacy", CoordinatorRecord.record(new LegacyOffsetCommitKey().setGroup("g").setTopic("t-1").setPartition(3),
            new ApiMessageAndVersion(new LegacyOffsetCommitValue().setOffset(42).setMetadata("AgAAAZ3cZ0CLAAAAAA==")
                .setCommitTimestamp(1790000000123L), (short) 0)));
        s.put("01-tombstone", GroupCoordinatorRecordHelpers.newOffsetCommitTombstoneRecord("g", "t-1", 3));
    }

    private static CoordinatorRecord offset(int version, OffsetCommitValue v) {
        return CoordinatorRecord.record(new OffsetCommitKey().setGroup("g").setTopic("t-1").setPartition(3),
            new ApiMessageAndVersion(v, (short) version));
    }

    private static void groups(Map<String, CoordinatorRecord> s) {
        s.put("17-full", StreamsCoordinatorRecordHelpers.newStreamsGroupMetadataRecord("g", 42, -7046029254386353131L, 3,
            new TreeMap<>(Map.of("rack.aware.assignment.tags", "zone,cluster", "num.standby.replicas", "2")), 4, 5));
        s.put("17-defaults", StreamsCoordinatorRecordHelpers.newStreamsGroupMetadataRecord("g", 2, 0L, -1, Map.of(), -1, -1));
        s.put("17-validated", StreamsCoordinatorRecordHelpers.newStreamsGroupMetadataRecord("g", 2, 1L, 0,
            Map.of("num.standby.replicas", "0"), -1, -1));
        s.put("17-uncertain", StreamsCoordinatorRecordHelpers.newStreamsGroupMetadataRecord("g", Integer.MAX_VALUE, Long.MIN_VALUE,
            -1, Map.of("num.standby.replicas", "1"), -2, 0));
        s.put("17-null-configs", CoordinatorRecord.record(new StreamsGroupMetadataKey().setGroupId("g"), value(
            new StreamsGroupMetadataValue().setEpoch(9).setMetadataHash(8).setLastAssignmentConfigs(null))));
        s.put("17-tombstone", StreamsCoordinatorRecordHelpers.newStreamsGroupEpochTombstoneRecord("g"));
        s.put("20-full", StreamsCoordinatorRecordHelpers.newStreamsGroupTargetAssignmentMetadataRecord("g", 7, 1790000000123L));
        s.put("20-no-time", StreamsCoordinatorRecordHelpers.newStreamsGroupTargetAssignmentMetadataRecord("g", 8, 0L));
        s.put("20-tombstone", StreamsCoordinatorRecordHelpers.newStreamsGroupTargetAssignmentMetadataTombstoneRecord("g"));
    }

    private static void members(Map<String, CoordinatorRecord> s) {
        Map<String, String> tags = new LinkedHashMap<>();
        tags.put("zone", "eu-1a");
        tags.put("cluster", "");
        s.put("19-full", member("g", "m-1", "instance-1", "rack-1", "client", "/10.0.0.7", 300000, 2, "p-1",
            new StreamsGroupMemberMetadataValue.Endpoint().setHost("app.example.com").setPort(65535), tags));
        s.put("19-minimal", member("g", "m-1", null, null, "", "", -1, -1, "", null, Map.of()));
        s.put("19-unicode", member("группа-Ω", "mitglied-ä-😀", "экземпляр", "", "клиент", "host/10.0.0.7", 1, 0, "進程",
            new StreamsGroupMemberMetadataValue.Endpoint().setHost("ホスト").setPort(1), Map.of("зона", "东")));
        s.put("19-long", member("g".repeat(300), "m".repeat(200), null, "r".repeat(127), "c".repeat(128), "h".repeat(16383), 5, 6,
            "p".repeat(126), null, Map.of("k".repeat(200), "v".repeat(300))));
        s.put("19-unknown-tag", unknownTag());
        s.put("19-tombstone", StreamsCoordinatorRecordHelpers.newStreamsGroupMemberTombstoneRecord("g", "m-1"));
    }

    private static CoordinatorRecord unknownTag() {
        StreamsGroupMemberMetadataValue v = new StreamsGroupMemberMetadataValue().setClientId("c").setClientHost("/h")
            .setRebalanceTimeoutMs(1).setTopologyEpoch(0).setProcessId("p").setClientTags(List.of());
        v.unknownTaggedFields().add(new RawTaggedField(9, new byte[] {1, 2, 3}));
        return CoordinatorRecord.record(new StreamsGroupMemberMetadataKey().setGroupId("g").setMemberId("m-1"), value(v));
    }

    private static CoordinatorRecord member(String group, String id, String instance, String rack, String client, String host,
            int timeout, int topologyEpoch, String process, StreamsGroupMemberMetadataValue.Endpoint endpoint, Map<String, String> tags) {
        return StreamsCoordinatorRecordHelpers.newStreamsGroupMemberRecord(group, StreamsGroupMember.Builder.withDefaults(id)
            .setInstanceId(instance).setRackId(rack).setClientId(client).setClientHost(host).setRebalanceTimeoutMs(timeout)
            .setTopologyEpoch(topologyEpoch).setProcessId(process).setUserEndpoint(endpoint).setClientTags(tags).build());
    }

    private static void targets(Map<String, CoordinatorRecord> s) {
        s.put("21-full", StreamsCoordinatorRecordHelpers.newStreamsGroupTargetAssignmentRecord("g", "m-1", new TasksTuple(
            Map.of("0", Set.of(2, 0, 1), "10", Set.of(7), "2", Set.of(300, 5)), Map.of("1", Set.of(4)), Map.of("1", Set.of(3), "0", Set.of(9)))));
        s.put("21-empty", StreamsCoordinatorRecordHelpers.newStreamsGroupTargetAssignmentRecord("g", "m-1", TasksTuple.EMPTY));
        s.put("21-tombstone", StreamsCoordinatorRecordHelpers.newStreamsGroupTargetAssignmentTombstoneRecord("g", "m-1"));
    }

    private static void currents(Map<String, CoordinatorRecord> s) {
        s.put("22-full", current(7, 6, MemberState.UNREVOKED_TASKS,
            new TasksTupleWithEpochs(Map.of("0", Map.of(0, 5, 1, 7), "10", Map.of(3, 2)), Map.of("1", Set.of(1, 0)), Map.of("2", Set.of(5))),
            new TasksTupleWithEpochs(Map.of("0", Map.of(2, 4), "b", Map.of(130, 1, 7, 1)), Map.of("1", Set.of(2)), Map.of("2", Set.of(6, 4)))));
        s.put("22-stable", current(2, 0, MemberState.STABLE,
            new TasksTupleWithEpochs(Map.of("0", Map.of(0, 2, 1, 2)), Map.of(), Map.of()), TasksTupleWithEpochs.EMPTY));
        s.put("22-unreleased", current(3, 2, MemberState.UNRELEASED_TASKS, TasksTupleWithEpochs.EMPTY, TasksTupleWithEpochs.EMPTY));
        s.put("22-static-left", current(-2, 3, MemberState.STABLE,
            new TasksTupleWithEpochs(Map.of("0", Map.of(0, 0)), Map.of(), Map.of()), TasksTupleWithEpochs.EMPTY));
        s.put("22-old-without-epochs", oldCurrent((byte) 1, List.of()));
        s.put("22-null-epochs", oldCurrent((byte) 1, null));
        s.put("22-wrong-epochs", oldCurrent((byte) 1, List.of(1)));
        s.put("22-unknown-state", oldCurrent((byte) 9, List.of(1, 2)));
        s.put("22-tombstone", StreamsCoordinatorRecordHelpers.newStreamsGroupCurrentAssignmentTombstoneRecord("g", "m-1"));
    }

    private static CoordinatorRecord current(int epoch, int previous, MemberState state, TasksTupleWithEpochs assigned, TasksTupleWithEpochs pending) {
        return StreamsCoordinatorRecordHelpers.newStreamsGroupCurrentAssignmentRecord("g", StreamsGroupMember.Builder.withDefaults("m-1")
            .setMemberEpoch(epoch).setPreviousMemberEpoch(previous).setState(state).setAssignedTasks(assigned)
            .setTasksPendingRevocation(pending).build());
    }

    private static CoordinatorRecord oldCurrent(byte state, List<Integer> epochs) {
        return CoordinatorRecord.record(new StreamsGroupCurrentMemberAssignmentKey().setGroupId("g").setMemberId("m-1"), value(
            new StreamsGroupCurrentMemberAssignmentValue().setMemberEpoch(5).setPreviousMemberEpoch(4).setState(state)
                .setActiveTasks(List.of(new StreamsGroupCurrentMemberAssignmentValue.TaskIds().setSubtopologyId("0")
                    .setPartitions(List.of(0, 1)).setAssignmentEpochs(epochs)))));
    }

    private static void topologies(Map<String, CoordinatorRecord> s) {
        StreamsGroupTopologyValue.Subtopology full = new StreamsGroupTopologyValue.Subtopology().setSubtopologyId("1")
            .setSourceTopics(List.of("z-source", "a-source")).setSourceTopicRegex(List.of("in-.*", "^x[0-9]+$"))
            .setStateChangelogTopics(List.of(topic("store-changelog", 0, (short) 3, "cleanup.policy", "compact", "a", ""), topic("s2", 0, (short) -1)))
            .setRepartitionSinkTopics(List.of("r-2", "r-1"))
            .setRepartitionSourceTopics(List.of(topic("r-0", 12, (short) 0, "segment.bytes", "52428800")))
            .setCopartitionGroups(List.of(
                new StreamsGroupTopologyValue.CopartitionGroup().setSourceTopics(List.of((short) 0, (short) 1))
                    .setSourceTopicRegex(List.of((short) 1)).setRepartitionSourceTopics(List.of((short) 0)),
                new StreamsGroupTopologyValue.CopartitionGroup()));
        StreamsGroupTopologyValue.Subtopology bare = new StreamsGroupTopologyValue.Subtopology().setSubtopologyId("0");
        s.put("23-full", StreamsCoordinatorRecordHelpers.newStreamsGroupTopologyRecord("g",
            new StreamsGroupTopologyValue().setEpoch(3).setSubtopologies(List.of(full, bare))));
        s.put("23-empty", StreamsCoordinatorRecordHelpers.newStreamsGroupTopologyRecord("g", new StreamsGroupTopologyValue()));
        s.put("23-tombstone", StreamsCoordinatorRecordHelpers.newStreamsGroupTopologyRecordTombstone("g"));
    }

    private static StreamsGroupTopologyValue.TopicInfo topic(String name, int partitions, short factor, String... configs) {
        List<StreamsGroupTopologyValue.TopicConfig> list = new java.util.ArrayList<>();
        for (int i = 0; i < configs.length; i += 2)
            list.add(new StreamsGroupTopologyValue.TopicConfig().setKey(configs[i]).setValue(configs[i + 1]));
        return new StreamsGroupTopologyValue.TopicInfo().setName(name).setPartitions(partitions).setReplicationFactor(factor).setTopicConfigs(list);
    }

    private static ApiMessageAndVersion value(org.apache.kafka.common.protocol.ApiMessage message) {
        return new ApiMessageAndVersion(message, (short) 0);
    }
}
