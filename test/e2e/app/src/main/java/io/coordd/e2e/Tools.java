package io.coordd.e2e;

import java.io.BufferedReader;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;

import com.fasterxml.jackson.databind.ObjectMapper;
import org.apache.kafka.common.utils.internals.Exit;
import org.slf4j.LoggerFactory;

/**
 * Runs Kafka's command-line tools in one JVM. Each line of stdin is a JSON array, the tool and its arguments; each line of
 * stdout is what it did: {@code {"exit":0,"stdout":"..","stderr":".."}}.
 */
public final class Tools {
    private interface Main {
        void run(String[] args) throws Exception;
    }

    private static final Map<String, Main> TOOLS = Map.of(
        "streams-groups", org.apache.kafka.tools.streams.StreamsGroupCommand::main,
        "groups", org.apache.kafka.tools.GroupsCommand::main,
        "consumer-groups", org.apache.kafka.tools.consumer.group.ConsumerGroupCommand::main,
        "configs", org.apache.kafka.tools.ConfigCommand::main,
        "topics", org.apache.kafka.tools.TopicCommand::main);

    /** Ends a command where it would have ended the JVM. */
    private static final class Ended extends Error {
        Ended() {
            super("the command has ended", null, false, false);
        }
    }

    private final ByteArrayOutputStream stdout = new ByteArrayOutputStream();
    private final ByteArrayOutputStream stderr = new ByteArrayOutputStream();
    private Map<String, Object> outcome;

    private Tools() { }

    public static void main(final String[] args) throws IOException {
        final PrintStream answers = System.out;
        LoggerFactory.getLogger(Tools.class); // takes the real stderr: what is logged is not what a tool prints
        final ObjectMapper json = new ObjectMapper();
        final BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            answers.println(json.writeValueAsString(new Tools().run(json.readValue(line, String[].class))));
            answers.flush();
        }
        Runtime.getRuntime().halt(0);
    }

    private Map<String, Object> run(final String[] command) {
        final PrintStream out = System.out;
        final PrintStream err = System.err;
        System.setOut(new PrintStream(stdout, true, StandardCharsets.UTF_8));
        System.setErr(new PrintStream(stderr, true, StandardCharsets.UTF_8));
        Exit.setExitProcedure((code, message) -> end(code));
        Exit.setHaltProcedure((code, message) -> end(code));
        try {
            final String[] args = new String[command.length - 1];
            System.arraycopy(command, 1, args, 0, args.length);
            TOOLS.get(command[0]).run(args);
            note(0);
        } catch (final Ended ended) {
            // The outcome is noted.
        } catch (final Throwable thrown) { // what the JVM itself would print and exit with
            if (outcome == null) {
                System.err.print("Exception in thread \"main\" ");
                thrown.printStackTrace();
            }
            note(1);
        } finally {
            Exit.resetExitProcedure();
            Exit.resetHaltProcedure();
            System.setOut(out);
            System.setErr(err);
        }
        return outcome;
    }

    private void end(final int code) {
        note(code);
        throw new Ended();
    }

    /** The first end counts: a tool may catch what ends it here, and go on as the real one would not. */
    private void note(final int code) {
        if (outcome == null) {
            outcome = new LinkedHashMap<>();
            outcome.put("exit", code);
            outcome.put("stdout", stdout.toString(StandardCharsets.UTF_8));
            outcome.put("stderr", stderr.toString(StandardCharsets.UTF_8));
        }
    }
}
