import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;

import org.apache.kafka.coordinator.group.api.streams.assignor.GroupAssignment;
import org.apache.kafka.coordinator.group.streams.assignor.GroupSpecImpl;
import org.apache.kafka.streams.processor.assignment.AssignmentConfigs;
import org.apache.kafka.streams.processor.assignment.ProcessId;
import org.apache.kafka.streams.processor.internals.assignment.ClientState;
import org.apache.kafka.streams.processor.internals.assignment.HighAvailabilityTaskAssignor;

import java.io.BufferedReader;
import java.io.FileInputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.lang.management.ManagementFactory;
import java.util.*;
import java.util.zip.GZIPInputStream;

/**
 * Runs Kafka's assignors on inputs of AssignorBench when it is told to, so that another process can be measured in turn with
 * this one. Each line of stdin is "INPUT ASSIGNOR SECONDS LEAST MOST": the assignor, sticky or ha, runs on the input for that
 * many seconds, as long as they allow at least LEAST and at most MOST times. The answer is one JSON line: ms of CPU time of the
 * thread that runs it, in the order of the runs, without the collector's, bytes that a run allocated, and the measures of the
 * assignment. Building the input is not measured.
 */
public class AssignorRounds {
    static String path;
    static AssignorBench.Case input;

    public static void main(String[] args) throws IOException {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        for (String line; (line = in.readLine()) != null; ) {
            String[] f = line.split(" ");
            if (!f[0].equals(path)) {
                input = load(f[0]);
                path = f[0];
            }
            double seconds = Double.parseDouble(f[2]);
            int least = Integer.parseInt(f[3]), most = Integer.parseInt(f[4]);
            System.out.println(f[1].equals("ha") ? ha(seconds, least, most) : sticky(seconds, least, most));
            System.out.flush();
        }
    }

    static String sticky(double seconds, int least, int most) {
        AssignorBench.Topo t = new AssignorBench.Topo(input.subs(), input.partitions());
        GroupSpecImpl s = AssignorBench.spec(input);
        GroupAssignment[] out = new GroupAssignment[1];
        String times = rounds(seconds, least, most, () -> { }, () -> out[0] = AssignorBench.sticky(s, t));
        return "{" + times + "," + AssignorBench.quality(input, AssignorBench.of(out[0]), false) + "}";
    }

    @SuppressWarnings("unchecked")
    static String ha(double seconds, int least, int most) {
        AssignmentConfigs cfg = AssignorBench.haConfig(input);
        Set<org.apache.kafka.streams.processor.TaskId> all = AssignorBench.tasks(input);
        Map<ProcessId, ClientState>[] cs = new Map[1];
        String times = rounds(seconds, least, most, () -> cs[0] = AssignorBench.clients(input),
            () -> new HighAvailabilityTaskAssignor().assign(cs[0], all, all, AssignorBench.rackless(cfg), cfg));
        Map<String, Map<String, Set<Integer>>[]> out = new HashMap<>();
        cs[0].forEach((k, v) -> out.put(k.id().toString(),
            new Map[]{AssignorBench.fromTaskIds(input, v.activeTasks()), AssignorBench.fromTaskIds(input, v.standbyTasks())}));
        return "{" + times + "," + AssignorBench.quality(input, out, true) + "}";
    }

    static String rounds(double seconds, int least, int most, Runnable prepare, Runnable run) {
        var threads = (com.sun.management.ThreadMXBean) ManagementFactory.getThreadMXBean();
        long self = Thread.currentThread().getId(), allocated = 0;
        StringBuilder ms = new StringBuilder();
        double spent = 0;
        int n = 0;
        for (; n < least || n < most && spent < seconds; n++) {
            prepare.run();
            long bytes = threads.getThreadAllocatedBytes(self), from = threads.getCurrentThreadCpuTime();
            run.run();
            double d = (threads.getCurrentThreadCpuTime() - from) / 1e6;
            allocated += threads.getThreadAllocatedBytes(self) - bytes;
            spent += d / 1e3;
            ms.append(n > 0 ? "," : "").append(String.format(Locale.ROOT, "%.4f", d));
        }
        return "\"ms\":[" + ms + "],\"bytes\":" + allocated / n;
    }

    static AssignorBench.Case load(String path) throws IOException {
        JsonNode in;
        try (var f = new GZIPInputStream(new FileInputStream(path))) {
            in = new ObjectMapper().readTree(f);
        }
        List<String> subs = new ArrayList<>();
        in.get("subtopologies").forEach(s -> subs.add(s.get("id").asText()));
        List<AssignorBench.Mem> members = new ArrayList<>();
        in.get("members").forEach(m -> members.add(new AssignorBench.Mem(m.get("memberId").asText(), m.get("processId").asText(),
            tasks(m.get("activeTasks")), tasks(m.get("standbyTasks")))));
        return new AssignorBench.Case(in.get("case").asText(), subs, in.get("subtopologies").get(0).get("partitions").asInt(),
            in.get("numStandbyReplicas").asInt(), members);
    }

    static Map<String, Set<Integer>> tasks(JsonNode n) {
        Map<String, Set<Integer>> out = new HashMap<>();
        n.fields().forEachRemaining(e -> {
            Set<Integer> ps = new HashSet<>();
            e.getValue().forEach(p -> ps.add(p.asInt()));
            out.put(e.getKey(), ps);
        });
        return out;
    }
}
