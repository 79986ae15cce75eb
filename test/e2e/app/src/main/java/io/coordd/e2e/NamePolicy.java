package io.coordd.e2e;

import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;

import org.apache.kafka.common.errors.PolicyViolationException;
import org.apache.kafka.server.policy.CreateTopicPolicy;

/** A policy of a broker that refuses topics whose names begin with "forbidden" while a file exists. */
public final class NamePolicy implements CreateTopicPolicy {
    private Path file;

    @Override
    public void configure(Map<String, ?> configs) {
        file = Path.of(String.valueOf(configs.get("io.coordd.e2e.policy.file")));
    }

    @Override
    public void validate(RequestMetadata request) {
        if (request.topic().startsWith("forbidden") && Files.exists(file)) {
            throw new PolicyViolationException("the names of this cluster's topics begin with a team");
        }
    }

    @Override
    public void close() {
    }
}
