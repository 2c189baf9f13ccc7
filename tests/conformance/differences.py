"""Where memcached 1.6.18 (Debian's, the live peer) and 1.6.45 (the reference) answer differently.

Every row is tested against both servers; the random streams of `test_differential` avoid these forms. `known`
tells how the answer of 1.6.45 became known:

recorded  seen on a running 1.6.45. The server under test must answer exactly this.
read      follows from the reference's source. The server under test may answer as either version does: nobody
          has relied on the difference, and a reading is weaker than a run.
ours      memcached of any version errs here; the server under test must answer as the column `current` says.

Three differences have no row, for no answer to a line on a connection of `test_differential` shows them: 1.6.45 has `flags=` in the
lines of `lru_crawler metadump`, refuses `stats detail` with `-X`, and lets `deletions` be watched. There the server answers as 1.6.45.
"""

import collections

from conformance.wire import BAD_CHUNK, BAD_EXPTIME, BAD_FORMAT, END, ERROR

Difference = collections.namedtuple("Difference", "name request debian current known reason")

K251 = b"k" * 251
INVALID_FLAG = b"CLIENT_ERROR invalid flag\r\n"
INVALID_OR_DUPLICATE = b"CLIENT_ERROR invalid or duplicate flag\r\n"
MANY_FLAGS = b"c f h k l q s t u v C1 D1 F1 I J1 N1 R1 T1 O1"

DIFFERENCES = [
    Difference(
        "commands without words", b"get\r\ngets\r\nverbosity\r\nmg\r\n\r\n", ERROR * 5, BAD_FORMAT * 5, "recorded",
        "a command with too few words is a format error since the parsers were unified, and so is an empty line",
    ),
    Difference(
        "commands with too few words", b"set a 0 0\r\nincr a\r\ntouch a\r\ndelete\r\ngat\r\ngat 0\r\nmd\r\nma\r\nmn\n",
        ERROR * 5 + END + ERROR * 2 + b"MN\r\n", BAD_FORMAT * 9, "read",
        "as commands without words; nor is a line of less than four bytes a command",
    ),
    Difference(
        "value of another length than declared", b"set a 0 0 1\r\nbcd\r\nset a 0 0 3\r\nab\r\n\r\n",
        (BAD_CHUNK + ERROR) * 2, (BAD_CHUNK + BAD_FORMAT) * 2, "recorded",
        "length and terminator are consumed, what remains is a line too short for any command",
    ),
    Difference(
        "refused set with its block",
        b"set %b 0 0 3\r\nabc\r\nset a x 0 3\r\nabc\r\nset a 0 x 3\r\nabc\r\ncas a 0 0 3\r\nabc\r\nms %b 3\r\nabc\r\n"
        % (K251, K251),
        (BAD_FORMAT + ERROR) * 3 + ERROR * 2 + BAD_FORMAT + ERROR, BAD_FORMAT * 5, "read",
        "the length is parsed before key and numbers are judged, so the data block is swallowed and not run as a command",
    ),
    Difference(
        "noreply with a length that is none", b"set a 0 0 -1 noreply\r\n", b"", BAD_FORMAT, "read",
        "without a length the line is not understood, noreply included",
    ),
    Difference(
        "extra words",
        b"incr a 1 2 3\r\ntouch a 0 1 2\r\nset a 0 0 3 4 5\r\nabc\r\nflush_all 0 1 2\r\nverbosity 0 1 2\r\n", ERROR * 6,
        b"NOT_FOUND\r\n" * 2 + b"STORED\r\n" + b"OK\r\n" * 2, "read",
        "extra words are ignored; only the last one is looked at for noreply",
    ),
    Difference(
        "delete with a time", b"delete a 1\r\n",
        b"CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n", b"NOT_FOUND\r\n", "read",
        "extra words are ignored",
    ),
    Difference(
        "numbers beyond 32 bits",
        b"set a 0 1700000000000 1\r\nx\r\nset a 0 0 1\r\nx\r\ntouch a 2147483648\r\ngat 2147483648 a\r\n"
        b"flush_all 4294967296\r\nget a\r\n",
        b"STORED\r\n" * 2 + b"TOUCHED\r\n" + END + b"OK\r\n" + END,
        BAD_FORMAT + b"STORED\r\n" + BAD_EXPTIME * 3 + b"VALUE a 0 1\r\nx\r\n" + END,
        "recorded", "1.6.18 takes the lower 32 bits, of flags and of what operating commands are told, too",
    ),
    Difference(
        "space before the command", b" get a\r\n delete a\r\n mn\r\n flush_all\r\n",
        END + b"NOT_FOUND\r\nMN\r\nOK\r\n", ERROR * 3 + b"OK\r\n", "read",
        "the command is what stands before the first space; what is not found there, and is about no item, is looked for behind it",
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
    Difference(
        "meta flags of later versions", b"mg a E1\r\nmd a x\r\nms a 2 MA N100 s\r\nhi\r\nms a 1 MA s\r\n!\r\n",
        INVALID_FLAG + INVALID_OR_DUPLICATE + b"NS\r\nNS\r\n", b"EN\r\nNF\r\nHD s2\r\nHD s3\r\n", "read",
        "E and x came after 1.6.18, which takes s of ms and N of an append, and ignores them",
    ),
    Difference(
        "too many meta flags", b"md a %b\r\nma a %b\r\n" % (MANY_FLAGS, MANY_FLAGS),
        b"CLIENT_ERROR options flags too long\r\n" * 2, b"CLIENT_ERROR options flags are too long\r\n" * 2, "read",
        "all commands have the words of mg",
    ),
    Difference(
        "lists of later versions", b"lru_crawler mgdump all\r\n", ERROR, b"EN\r\n", "read", "mgdump came after 1.6.18",
    ),
    Difference(
        "mode of more than a letter", b"ms a 1 MSet\r\nx\r\nma a Mincr\r\n",
        b"CLIENT_ERROR incorrect length for M token\r\n" + INVALID_OR_DUPLICATE,
        b"HD\r\nCLIENT_ERROR invalid mode for ma M token\r\n", "read", "only the first letter is looked at",
    ),
    Difference(
        "wrong flags of md", b"md a W\r\nmd a v v\r\nmd a Cx\r\n", INVALID_OR_DUPLICATE * 3,
        INVALID_FLAG + b"CLIENT_ERROR duplicate flag\r\nCLIENT_ERROR bad token in command line format\r\n", "read",
        "md tells what is wrong, as mg does",
    ),
    Difference(
        "ma that creates in silence", b"ma a N0 J5 q\r\nma a N0 q v\r\nma a v\r\n", b"HD\r\nVA 1\r\n7\r\n",
        b"VA 1\r\n7\r\n", "read", "q hides the answer of a creation as that of an increment",
    ),
    Difference(
        "key in base64 of an item that is made by itself or anew",
        b"mg AAEC b k N0\r\nmg AAEC b k\r\nma AAED b N0\r\nmg AAED b k\r\nms QUJD 1 b\r\n9\r\nincr ABC 1\r\nmg ABC k\r\n"
        b"ms QUJE 1 b\r\n1\r\nappend ABD 0 0 1\r\n2\r\nmg ABD k\r\n",
        b"HD k\0\1\2 W\r\nHD k\0\1\2 Z\r\nHD\r\nHD k\0\1\3\r\nHD\r\n10\r\nHD kABC\r\nHD\r\nSTORED\r\nHD kABD\r\n",
        b"HD kAAEC b W\r\nHD kAAEC b Z\r\nHD\r\nHD kAAED b\r\nHD\r\n10\r\nHD kQUJD b\r\nHD\r\nSTORED\r\nHD kQUJE b\r\n", "ours",
        "memcached forgets that the key is binary and shows it raw, line ends included",
    ),
    Difference(
        "time of a number that becomes longer", b"set n 0 0 1\r\n9\r\nma n T-1\r\nget n\r\n",
        b"STORED\r\nHD\r\nVALUE n 0 2\r\n10\r\n" + END, b"STORED\r\nHD\r\n" + END, "ours",
        "memcached gives the new time to the item that the longer number has just replaced",
    ),
    Difference(
        "hit before an overwrite", b"set a 0 0 1\r\nx\r\nmg a h\r\nset a 0 0 1\r\ny\r\nmg a h\r\n",
        b"STORED\r\nHD h0\r\nSTORED\r\nHD h0\r\n", b"STORED\r\nHD h0\r\nSTORED\r\nHD h1\r\n", "ours",
        "what is known of a key's use outlives its value, so that an overwrite does not make a hot key cold",
    ),
]

#: So many exceptions at most: more would prove no likeness.
DIFFERENCES_MAX = 20
#: Random cases of each command, and of each flag of the meta commands, at least.
CASES = 1000

assert len(DIFFERENCES) <= DIFFERENCES_MAX


def summary(compared):
    """Lines that say of {protocol: {what: cases}} how much was compared; none if nothing was."""
    lines = [
        f"compared with memcached, {protocol}: {len(cases)} kinds, {min(cases.values())} cases or more of each: "
        + ", ".join(f"{what} {count}" for what, count in cases.items())
        for protocol, cases in compared.items()
    ]
    return lines and [*lines, f"documented differences: {len(DIFFERENCES)}, at most {DIFFERENCES_MAX}"]
