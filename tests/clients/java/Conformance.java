// What spymemcached can do, against the server at HOST PORT, in text and binary, or with USER PASSWORD over SASL.
// Prints how many checks passed.

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.concurrent.TimeUnit;
import java.util.logging.Level;
import java.util.logging.Logger;
import net.spy.memcached.AddrUtil;
import net.spy.memcached.CASResponse;
import net.spy.memcached.CASValue;
import net.spy.memcached.ConnectionFactoryBuilder;
import net.spy.memcached.ConnectionFactoryBuilder.Protocol;
import net.spy.memcached.MemcachedClient;
import net.spy.memcached.auth.AuthDescriptor;
import net.spy.memcached.auth.PlainCallbackHandler;
import net.spy.memcached.internal.OperationFuture;

public class Conformance {
    /** Longest wait for an answer, and for a time to live of one second to pass. */
    private static final long DEADLINE_MS = 10_000;

    private static int count;

    public static void main(String[] args) throws Exception {
        if (args.length != 2 && args.length != 4) {
            System.out.println("usage: Conformance HOST PORT [USER PASSWORD]");
            System.exit(2);
        }
        System.setProperty("net.spy.log.LoggerImpl", "net.spy.memcached.compat.log.SunLogger");
        Logger.getLogger("net.spy").setLevel(Level.OFF);
        String address = args[0] + ":" + args[1];
        try {
            if (args.length == 4) {
                run(address, Protocol.BINARY, args[2], args[3]);
                stranger(address, args[2]);
            } else {
                run(address, Protocol.TEXT, null, null);
                run(address, Protocol.BINARY, null, null);
            }
        } catch (AssertionError failed) {
            System.out.println("failed: " + failed.getMessage());
            System.exit(1);
        }
        System.out.println(count + " checks passed");
        System.exit(0);
    }

    private static MemcachedClient connect(String address, Protocol protocol, String user, String password) throws Exception {
        ConnectionFactoryBuilder builder = new ConnectionFactoryBuilder().setProtocol(protocol).setOpTimeout(DEADLINE_MS);
        builder.setMaxReconnectDelay(1);
        if (user != null) {
            builder.setAuthDescriptor(new AuthDescriptor(new String[] {"PLAIN"}, new PlainCallbackHandler(user, password)));
        }
        return new MemcachedClient(builder.build(), AddrUtil.getAddresses(address));
    }

    private static void run(String address, Protocol protocol, String user, String password) throws Exception {
        MemcachedClient client = connect(address, protocol, user, password);
        String version = client.getVersions().values().iterator().next();
        check(protocol + " version", version.matches("1\\.6\\.\\d+"));
        check(protocol + " flush", yes(client.flush()));
        stores(client);
        numbers(client);
        swaps(client);
        many(client);
        large(client);
        times(client, protocol);
        Map<String, String> stats = client.getStats().values().iterator().next();
        check("stats", stats.containsKey("curr_items") && stats.containsKey("pid"));
        check("delete", yes(client.delete("text")));
        check("delete of none", !yes(client.delete("text")));
        check("flush at the end", yes(client.flush()));
        check("get after it", client.get("log") == null);
        client.shutdown(1, TimeUnit.SECONDS);
    }

    private static void stranger(String address, String user) throws Exception {
        MemcachedClient client = connect(address, Protocol.BINARY, user, "wrong");
        try {
            check("get of a stranger", client.get("text") == null && false);
        } catch (RuntimeException refused) {
            check("stranger refused", true);
        }
        client.shutdown();
    }

    private static void stores(MemcachedClient client) throws Exception {
        check("set", yes(client.set("text", 0, "käse")));
        is(client, "text", "käse");
        check("set of an object", yes(client.set("object", 0, new ArrayList<>(Arrays.asList(1, "two", 3.0)))));
        is(client, "object", Arrays.asList(1, "two", 3.0));
        check("set of line ends", yes(client.set("ends", 0, "\r\nEND\r\n\0")));
        is(client, "ends", "\r\nEND\r\n\0");
        check("add over another", !yes(client.add("text", 0, "no")));
        check("add", yes(client.add("new", 0, "yes")));
        check("replace", yes(client.replace("new", 0, "still")));
        check("replace of none", !yes(client.replace("none", 0, "no")));
        check("set for append", yes(client.set("log", 0, "b")));
        check("append", yes(client.append("log", "c")));
        check("prepend", yes(client.prepend("log", "a")));
        is(client, "log", "abc");
        check("append to none", !yes(client.append("none", "x")));
        is(client, "none", null);
    }

    private static void numbers(MemcachedClient client) throws Exception {
        check("set of a number", yes(client.set("number", 0, "42")));
        check("increment", client.incr("number", 8) == 50);
        check("decrement below zero", client.decr("number", 100) == 0);
        check("increment of none", client.incr("none", 1) == -1);
        check("increment that creates", client.incr("made", 1, 7L) == 7);
        check("increment of what it made", client.incr("made", 1, 7L) == 8);
    }

    private static void swaps(MemcachedClient client) {
        CASValue<Object> seen = client.gets("text");
        check("gets", "käse".equals(seen.getValue()));
        check("swap", client.cas("text", seen.getCas(), "two") == CASResponse.OK);
        check("swap again", client.cas("text", seen.getCas(), "three") == CASResponse.EXISTS);
        check("swap of none", client.cas("none", seen.getCas(), "x") == CASResponse.NOT_FOUND);
        is(client, "text", "two");
    }

    private static void many(MemcachedClient client) throws Exception {
        List<String> keys = new ArrayList<>();
        for (int i = 0; i < 200; i++) {
            keys.add("many" + i);
            if (i % 2 == 0) {
                check("set of many", yes(client.set("many" + i, 0, "" + i)));
            }
        }
        Map<String, Object> got = client.getBulk(keys);
        check("get of many", got.size() == 100 && "42".equals(got.get("many42")));
    }

    private static void large(MemcachedClient client) throws Exception {
        byte[] value = new byte[1_000_000];
        new java.util.Random(1).nextBytes(value);
        check("set of a megabyte", yes(client.set("large", 0, value)));
        check("get of a megabyte", Arrays.equals(value, (byte[]) client.get("large")));
    }

    private static void times(MemcachedClient client, Protocol protocol) throws Exception {
        check("touch", yes(client.touch("text", 1000)));
        check("touch of none", !yes(client.touch("none", 1000)));
        if (protocol == Protocol.BINARY) {
            // The client has no text command for it.
            check("get and touch", "two".equals(client.getAndTouch("text", 1000).getValue()));
        }
        check("set for a second", yes(client.set("soon", 1, "x")));
        long until = System.currentTimeMillis() + DEADLINE_MS;
        while (client.get("soon") != null && System.currentTimeMillis() < until) {
            Thread.onSpinWait();
        }
        is(client, "soon", null);
    }

    private static boolean yes(OperationFuture<Boolean> answer) throws Exception {
        return answer.get(DEADLINE_MS, TimeUnit.MILLISECONDS);
    }

    private static void is(MemcachedClient client, String key, Object wanted) {
        Object got = client.get(key);
        check("get " + key + ": " + got, Objects.equals(got, wanted));
    }

    private static void check(String what, boolean holds) {
        if (!holds) {
            throw new AssertionError(what);
        }
        count++;
    }
}
