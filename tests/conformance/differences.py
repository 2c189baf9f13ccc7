"""Where memcached 1.6.18 (Debian's, the live peer) and 1.6.45 (the reference) answer differently.

Every row is tested against both servers; the random streams of `test_differential` avoid these forms. `known`
tells how the answer of 1.6.45 became known:

recorded  seen on a running 1.6.45. The server under test must answer exactly this.
read      follows from the reference's source. The server under test may answer as either version does: nobody
          has relied on the difference, and a reading is weaker than a run.
ours      memcached of any version errs here; the server under test must answer as the column `current` says.
"""

import collections

from conformance.wire import BAD_CHUNK, BAD_FORMAT, END, ERROR

Difference = collections.namedtuple("Difference", "name request debian current known reason")

K251 = b"k" * 251

DIFFERENCES = [
    Difference(
        "bare get", b"get\r\n", ERROR, BAD_FORMAT, "recorded",
        "a command with too few words is a format error since the parsers were unified",
    ),
    Difference("bare gets", b"gets\r\n", ERROR, BAD_FORMAT, "recorded", "as bare get"),
    Difference("bare verbosity", b"verbosity\r\n", ERROR, BAD_FORMAT, "recorded", "as bare get"),
    Difference(
        "empty line", b"\r\n", ERROR, BAD_FORMAT, "recorded",
        "a line too short for any command is a format error; seen as the second error of a bad data chunk",
    ),
    Difference(
        "value longer than declared", b"set a 0 0 1\r\nbcd\r\n", BAD_CHUNK + ERROR, BAD_CHUNK + BAD_FORMAT, "recorded",
        "length and terminator are consumed, what remains is the empty line above",
    ),
    Difference(
        "value shorter than declared", b"set a 0 0 3\r\nab\r\n\r\n", BAD_CHUNK + ERROR, BAD_CHUNK + BAD_FORMAT,
        "recorded", "the block is read across the line end, what remains is a line too short for any command",
    ),
    Difference(
        "too few words", b"set a 0 0\r\nincr a\r\ntouch a\r\ndelete\r\ngat\r\n", ERROR * 5, BAD_FORMAT * 5, "read",
        "as bare get",
    ),
    Difference("gat without a key", b"gat 0\r\n", END, BAD_FORMAT, "read", "as bare get"),
    Difference(
        "set with a key of 251 bytes", b"set %b 0 0 3\r\nabc\r\n" % K251, BAD_FORMAT + ERROR, BAD_FORMAT, "read",
        "the length is parsed before the key is judged, so the data block is swallowed and not run as a command",
    ),
    Difference(
        "set with bad flags", b"set a x 0 3\r\nabc\r\n", BAD_FORMAT + ERROR, BAD_FORMAT, "read", "as key of 251 bytes"
    ),
    Difference(
        "set with bad exptime", b"set a 0 x 3\r\nabc\r\n", BAD_FORMAT + ERROR, BAD_FORMAT, "read", "as key of 251 bytes"
    ),
    Difference(
        "cas without its number", b"cas a 0 0 3\r\nabc\r\n", ERROR * 2, BAD_FORMAT, "read",
        "five words are enough for the length to be parsed, so the data block is swallowed",
    ),
    Difference(
        "noreply with a length that is none", b"set a 0 0 -1 noreply\r\n", b"", BAD_FORMAT, "read",
        "without a length the line is not understood, noreply included",
    ),
    Difference(
        "extra words after a set", b"set a 0 0 3 4 5\r\nabc\r\n", ERROR * 2, b"STORED\r\n", "read",
        "extra words are ignored; only the last one is looked at for noreply",
    ),
    Difference(
        "extra words after others", b"incr a 1 2 3\r\ntouch a 0 1 2\r\nflush_all 0 1 2\r\nverbosity 0 1 2\r\n", ERROR * 4,
        b"NOT_FOUND\r\n" * 2 + b"OK\r\n" * 2, "read", "extra words are ignored",
    ),
    Difference(
        "delete with a time", b"delete a 1\r\n",
        b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n", b"NOT_FOUND\r\n", "read",
        "extra words are ignored",
    ),
    Difference(
        "space before the command", b" get a\r\n", END, ERROR, "read", "the command is what stands before the first space"
    ),
    Difference(
        "error of a get behind another request", b"set a 0 0 1\r\nx\r\nget a %b\r\n" % K251, BAD_FORMAT,
        b"STORED\r\n" + BAD_FORMAT, "ours",
        "memcached throws away the replies that wait in the same batch, and the client is out of step",
    ),
    Difference(
        "zero byte in a key", b"set a 0 0 1\r\nx\r\nget a\0b\r\n", b"STORED\r\nVALUE a 0 1\r\nx\r\n" + END,
        b"STORED\r\n" + END, "read", "lines are no longer C strings, the key does not end at the zero",
    ),
]

assert len(DIFFERENCES) <= 20, "so many exceptions prove no likeness"
