package io.coordd.e2e;

import java.util.List;
import java.util.Locale;
import java.util.Properties;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;
import org.apache.kafka.streams.kstream.Repartitioned;

/**
 * The topologies under test. Topics are named after the application: {@code APP.in} (or {@code APP.left} and
 * {@code APP.right}) and {@code APP.out}. Everything that makes an internal topic has a name, so that its topic is named
 * alike whatever stands before it.
 */
final class Topologies {
    private Topologies() { }

    static Topology of(final String name, final String app) {
        final StreamsBuilder builder = new StreamsBuilder();
        switch (name) {
            case "stateless" -> stateless(builder, app);
            case "wordcount" -> wordcount(builder, app);
            case "join" -> join(builder, app);
            case "fixed" -> fixed(builder, app);
            case "match" -> match(builder, app);
            case "rolled-1" -> rolled(builder, app, false);
            case "rolled-2" -> rolled(builder, app, true);
            default -> throw new IllegalArgumentException("unknown topology " + name);
        }
        final Properties p = new Properties();
        if (name.equals("match")) {
            p.put(StreamsConfig.TOPOLOGY_OPTIMIZATION_CONFIG, StreamsConfig.REUSE_KTABLE_SOURCE_TOPICS);
        }
        return builder.build(p);
    }

    /** One output record for each input record, same key, value in upper case. */
    private static void stateless(final StreamsBuilder builder, final String app) {
        builder.stream(app + ".in", strings())
            .mapValues(line -> line.toUpperCase(Locale.ROOT))
            .to(app + ".out", Produced.with(Serdes.String(), Serdes.String()));
    }

    /** Two subtopologies with a repartition topic between them, a changelog behind the second: word to count so far. */
    private static void wordcount(final StreamsBuilder builder, final String app) {
        builder.stream(app + ".in", strings())
            .flatMapValues(line -> List.of(line.split(" ")))
            .groupBy((key, word) -> word, Grouped.with("by-word", Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts"))
            .toStream()
            .to(app + ".out", Produced.with(Serdes.String(), Serdes.Long()));
    }

    /** One subtopology with two copartitioned sources and three stores: the newest left and right value of a key. */
    private static void join(final StreamsBuilder builder, final String app) {
        final KTable<String, String> left = builder.table(app + ".left", strings(), Materialized.as("left"));
        final KTable<String, String> right = builder.table(app + ".right", strings(), Materialized.as("right"));
        left.join(right, (l, r) -> l + "|" + r, Materialized.as("joined"))
            .toStream()
            .to(app + ".out", Produced.with(Serdes.String(), Serdes.String()));
    }

    /** Word count whose repartition topic has three partitions whatever its source has: the source can grow. */
    private static void fixed(final StreamsBuilder builder, final String app) {
        builder.stream(app + ".in", strings())
            .flatMapValues(line -> List.of(line.split(" ")))
            .selectKey((key, word) -> word)
            .repartition(Repartitioned.with(Serdes.String(), Serdes.String()).withName("by-word").withNumberOfPartitions(3))
            .groupByKey()
            .count(Materialized.as("counts"))
            .toStream()
            .to(app + ".out", Produced.with(Serdes.String(), Serdes.Long()));
    }

    /** Two copartitioned sources that are the changelogs of their stores, so that nothing keeps them from growing: the pairs of left and right. */
    private static void match(final StreamsBuilder builder, final String app) {
        final KTable<String, String> left = builder.table(app + ".left", strings(), Materialized.as("left"));
        final KTable<String, String> right = builder.table(app + ".right", strings(), Materialized.as("right"));
        left.join(right, (l, r) -> l + "|" + r)
            .toStream()
            .to(app + ".out", Produced.with(Serdes.String(), Serdes.String()));
    }

    /**
     * Two versions of an application. Word count, subtopologies 0 and 1, is the same in both. Subtopology 2 copies
     * {@code APP.side} in upper case to {@code APP.side-out}; the second version has it count the keys, too.
     */
    private static void rolled(final StreamsBuilder builder, final String app, final boolean second) {
        wordcount(builder, app);
        final KStream<String, String> side = builder.stream(app + ".side", strings());
        side.mapValues(line -> line.toUpperCase(Locale.ROOT))
            .to(app + ".side-out", Produced.with(Serdes.String(), Serdes.String()));
        if (second) {
            side.groupByKey(Grouped.with(Serdes.String(), Serdes.String())).count(Materialized.as("side-counts"));
        }
    }

    private static Consumed<String, String> strings() {
        return Consumed.with(Serdes.String(), Serdes.String());
    }
}
