package io.coordd.e2e;

import java.util.List;
import java.util.Locale;

import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KTable;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * The topologies under test. Topics are named after the application: {@code APP.in} (or {@code APP.left} and
 * {@code APP.right}) and {@code APP.out}.
 */
final class Topologies {
    private Topologies() { }

    static Topology of(final String name, final String app) {
        final StreamsBuilder builder = new StreamsBuilder();
        switch (name) {
            case "stateless" -> stateless(builder, app);
            case "wordcount" -> wordcount(builder, app);
            case "join" -> join(builder, app);
            default -> throw new IllegalArgumentException("unknown topology " + name);
        }
        return builder.build();
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

    private static Consumed<String, String> strings() {
        return Consumed.with(Serdes.String(), Serdes.String());
    }
}
