package io.coordd.e2e;

import java.util.HashMap;
import java.util.Map;
import java.util.Properties;

/** The command line: {@code --name value} pairs; {@code --conf key=value} may come several times. */
final class Options {
    private final Map<String, String> values = new HashMap<>();
    private final Properties conf = new Properties();

    Options(final String[] args) {
        if (args.length % 2 != 0) {
            throw new IllegalArgumentException("options come as --name value pairs");
        }
        for (int i = 0; i < args.length; i += 2) {
            if (!args[i].startsWith("--")) {
                throw new IllegalArgumentException("not an option: " + args[i]);
            }
            final String name = args[i].substring(2);
            if (name.equals("conf")) {
                final int eq = args[i + 1].indexOf('=');
                conf.put(args[i + 1].substring(0, eq), args[i + 1].substring(eq + 1));
            } else {
                values.put(name, args[i + 1]);
            }
        }
    }

    String get(final String name) {
        final String value = values.get(name);
        if (value == null) {
            throw new IllegalArgumentException("--" + name + " is missing");
        }
        return value;
    }

    String get(final String name, final String otherwise) {
        return values.getOrDefault(name, otherwise);
    }

    /** Settings given with --conf: they override what the application sets itself. */
    Properties conf() {
        return conf;
    }
}
