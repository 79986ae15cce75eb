package io.coordd.e2e;

import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;

/** What the application reports: one JSON object a line on stdout, {@code t} in milliseconds since the epoch. */
final class Events {
    private Events() { }

    /** Prints an event with its fields as name, value, name, value. Values are strings, numbers, booleans or collections of strings. */
    static synchronized void say(final String event, final Object... fields) {
        final Map<String, Object> all = new LinkedHashMap<>();
        all.put("t", System.currentTimeMillis());
        all.put("event", event);
        for (int i = 0; i < fields.length; i += 2) {
            all.put((String) fields[i], fields[i + 1]);
        }
        final StringBuilder out = new StringBuilder();
        all.forEach((name, value) -> {
            out.append(out.length() == 0 ? '{' : ',');
            append(out, name);
            out.append(':');
            append(out, value);
        });
        System.out.println(out.append('}'));
        System.out.flush();
    }

    private static void append(final StringBuilder out, final Object value) {
        if (value instanceof Number || value instanceof Boolean || value == null) {
            out.append(value);
        } else if (value instanceof Collection<?> many) {
            String separator = "[";
            for (final Object one : many) {
                out.append(separator);
                append(out, one);
                separator = ",";
            }
            out.append(many.isEmpty() ? "[]" : "]");
        } else {
            quote(out, value.toString());
        }
    }

    private static void quote(final StringBuilder out, final String text) {
        out.append('"');
        for (final char c : text.toCharArray()) {
            if (c == '"' || c == '\\') {
                out.append('\\').append(c);
            } else if (c < ' ') {
                out.append(String.format("\\u%04x", (int) c));
            } else {
                out.append(c);
            }
        }
        out.append('"');
    }
}
