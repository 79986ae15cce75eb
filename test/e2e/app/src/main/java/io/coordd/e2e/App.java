package io.coordd.e2e;

import java.time.Duration;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.TreeSet;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;

import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.TaskMetadata;
import org.apache.kafka.streams.ThreadMetadata;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;

/**
 * One instance of the Streams application under test. It runs until SIGTERM (then it closes, which leaves the group) or
 * until the client stops by itself, and reports on stdout, one JSON object a line:
 * <pre>
 *   {"t":..,"event":"client","from":"REBALANCING","to":"RUNNING"}         each transition of the client
 *   {"t":..,"event":"thread","thread":"1","state":"RUNNING"}              each change of a thread's state, sampled
 *   {"t":..,"event":"tasks","thread":"1","active":["0_0"],"standby":[]}   each change of a thread's tasks, sampled
 *   {"t":..,"event":"restoring","topic":"..","partition":0,"offset":7,"end":9}       an active task restores a store; "restored" and "suspended" have "records"
 *   {"t":..,"event":"copying","topic":"..","partition":0,"offset":7}                a standby or warm-up copies a store; "copied" says how far it came and why it ended
 *   {"t":..,"event":"exception","class":"..","message":"..","root":".."}
 *   {"t":..,"event":"closed","clean":true,"state":"NOT_RUNNING"}
 * </pre>
 * Options: --bootstrap, --app, --topology (those of Topologies), --state-dir; --protocol streams|classic,
 * --guarantee at_least_once|exactly_once_v2, --threads N, --conf key=value.
 * The exit code is 1 when an exception stopped the client.
 */
public final class App {
    private static final long SAMPLE_MS = 50;
    private static final Duration CLOSE_WITHIN = Duration.ofSeconds(30);

    private final KafkaStreams streams;
    private final CountDownLatch stopped = new CountDownLatch(1);
    private final Map<String, String> lastState = new HashMap<>();
    private final Map<String, String> lastTasks = new HashMap<>();
    private volatile int exitCode;

    private App(final Options options) {
        streams = new KafkaStreams(Topologies.of(options.get("topology"), options.get("app")), settings(options));
        streams.setStateListener((to, from) -> {
            Events.say("client", "from", from.name(), "to", to.name());
            if (to == KafkaStreams.State.ERROR || to == KafkaStreams.State.NOT_RUNNING) {
                stopped.countDown();
            }
        });
        final Restores restores = new Restores();
        streams.setGlobalStateRestoreListener(restores);
        streams.setStandbyUpdateListener(restores);
        streams.setUncaughtExceptionHandler(thrown -> {
            exitCode = 1;
            Throwable root = thrown;
            while (root.getCause() != null && root.getCause() != root) {
                root = root.getCause();
            }
            Events.say("exception", "class", thrown.getClass().getName(), "message", String.valueOf(thrown.getMessage()),
                "root", root.toString());
            return StreamThreadExceptionResponse.SHUTDOWN_CLIENT;
        });
    }

    public static void main(final String[] args) throws InterruptedException {
        final App app = new App(new Options(args));
        final Thread main = Thread.currentThread();
        Runtime.getRuntime().addShutdownHook(new Thread(() -> {
            app.stopped.countDown();
            try {
                main.join(CLOSE_WITHIN.toMillis() + 5_000);
            } catch (final InterruptedException interrupted) {
                Thread.currentThread().interrupt();
            }
        }));
        app.run();
        System.out.flush();
        // Halt, not exit: exit would wait for the hook, which waits for this thread.
        Runtime.getRuntime().halt(app.exitCode);
    }

    private static Properties settings(final Options options) {
        final Properties p = new Properties();
        p.put(StreamsConfig.APPLICATION_ID_CONFIG, options.get("app"));
        p.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, options.get("bootstrap"));
        p.put(StreamsConfig.STATE_DIR_CONFIG, options.get("state-dir"));
        p.put(StreamsConfig.GROUP_PROTOCOL_CONFIG, options.get("protocol", "streams"));
        p.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, options.get("guarantee", StreamsConfig.AT_LEAST_ONCE));
        p.put(StreamsConfig.NUM_STREAM_THREADS_CONFIG, options.get("threads", "1"));
        p.put(StreamsConfig.REPLICATION_FACTOR_CONFIG, "-1");
        p.put(StreamsConfig.COMMIT_INTERVAL_MS_CONFIG, "200");
        // Without a cache every update of a table goes out: the output is a full history, and can be checked as one.
        p.put(StreamsConfig.STATESTORE_CACHE_MAX_BYTES_CONFIG, "0");
        p.put(StreamsConfig.DEFAULT_KEY_SERDE_CLASS_CONFIG, "org.apache.kafka.common.serialization.Serdes$StringSerde");
        p.put(StreamsConfig.DEFAULT_VALUE_SERDE_CLASS_CONFIG, "org.apache.kafka.common.serialization.Serdes$StringSerde");
        p.put("auto.offset.reset", "earliest");
        p.putAll(options.conf());
        return p;
    }

    private void run() throws InterruptedException {
        streams.start();
        do {
            sample();
        } while (!stopped.await(SAMPLE_MS, TimeUnit.MILLISECONDS));
        final boolean clean = streams.close(CLOSE_WITHIN);
        Events.say("closed", "clean", clean, "state", streams.state().name());
    }

    private void sample() {
        for (final ThreadMetadata thread : streams.metadataForLocalThreads()) {
            final String name = thread.threadName().substring(thread.threadName().lastIndexOf('-') + 1);
            if (!thread.threadState().equals(lastState.put(name, thread.threadState()))) {
                Events.say("thread", "thread", name, "state", thread.threadState());
            }
            final Collection<String> active = ids(thread.activeTasks());
            final Collection<String> standby = ids(thread.standbyTasks());
            final String tasks = active + "/" + standby;
            if (!tasks.equals(lastTasks.put(name, tasks))) {
                Events.say("tasks", "thread", name, "active", active, "standby", standby);
            }
        }
    }

    private static Collection<String> ids(final Collection<TaskMetadata> tasks) {
        final Collection<String> ids = new TreeSet<>();
        tasks.forEach(task -> ids.add(task.taskId().toString()));
        return ids;
    }
}
