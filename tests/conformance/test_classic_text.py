"""Every classic text command and its errors: what is sent, and the exact bytes that come back.

Expected bytes are facts of memcached 1.6.45; all rows here hold for Debian's 1.6.18 as well (where the two differ:
`differences.py`). Each row starts on an empty server, and a `version` behind it shows that the connection is
still in step.
"""

import socket
import time

import pytest

from conformance.wire import (
    BAD_CHUNK,
    BAD_DELTA,
    BAD_EXPTIME,
    BAD_FORMAT,
    DEADLINE_S,
    END,
    ERROR,
    NON_NUMERIC,
    TOO_LARGE,
    set_request,
    short,
)

STORED = b"STORED\r\n"
NOT_STORED = b"NOT_STORED\r\n"
EXISTS = b"EXISTS\r\n"
NOT_FOUND = b"NOT_FOUND\r\n"
DELETED = b"DELETED\r\n"
TOUCHED = b"TOUCHED\r\n"
OK = b"OK\r\n"

K250 = b"k" * 250
K251 = b"k" * 251
MIB = 1 << 20
DAYS_30 = 30 * 24 * 3600


def val(key, value, flags=0):
    """One item of a reply to get."""
    return b"VALUE %b %d %d\r\n%b\r\n" % (key, flags, len(value), value)


def hit(key, value, flags=0):
    """A whole reply to get with one hit."""
    return val(key, value, flags) + END


#: name -> (request, reply)
GET = {
    "miss": (b"get a\r\n", END),
    "hit": (b"set a 0 0 1\r\nx\r\nget a\r\n", STORED + hit(b"a", b"x")),
    "many": (
        b"set a 1 0 1\r\nx\r\nset b 2 0 2\r\nyy\r\nget a nope b\r\n",
        STORED * 2 + val(b"a", b"x", 1) + val(b"b", b"yy", 2) + END,
    ),
    "same key thrice": (b"set a 0 0 1\r\nx\r\nget a a a\r\n", STORED + val(b"a", b"x") * 3 + END),
    "request order": (
        b"set a 0 0 1\r\nx\r\nset b 0 0 1\r\ny\r\nget b a\r\n",
        STORED * 2 + val(b"b", b"y") + val(b"a", b"x") + END,
    ),
    "spaces between and behind": (b"set a 0 0 1\r\nx\r\nget  a   a  \r\n", STORED + val(b"a", b"x") * 2 + END),
    "bare newline": (b"set a 0 0 1\nx\r\nget a\n", STORED + hit(b"a", b"x")),
    "noreply is a key": (b"set a 0 0 1\r\nx\r\nget a noreply\r\n", STORED + hit(b"a", b"x")),
    "key of 250 bytes": (b"set %b 0 0 1\r\nx\r\nget %b\r\n" % (K250, K250), STORED + hit(K250, b"x")),
    "key of 251 bytes": (b"get %b\r\n" % K251, BAD_FORMAT),
    "gets, key of 251 bytes": (b"gets %b\r\n" % K251, BAD_FORMAT),
    "key of 1900 bytes": (b"get %b\r\n" % (b"k" * 1900), BAD_FORMAT),
    "key of any bytes": (
        b"set k\x01\x7f\x80\xff 0 0 1\r\nx\r\nget k\x01\x7f\x80\xff\r\n",
        STORED + hit(b"k\x01\x7f\x80\xff", b"x"),
    ),
    "keys are case sensitive": (b"set a 0 0 1\r\nx\r\nget A\r\n", STORED + END),
    "gets miss": (b"gets a b\r\n", END),
}

GAT = {
    "miss": (b"gat 0 a\r\n", END),
    "gats miss": (b"gats 0 a\r\n", END),
    "hit": (b"set a 5 0 1\r\nx\r\ngat 100 a\r\nget a\r\n", STORED + hit(b"a", b"x", 5) * 2),
    "many": (b"set a 0 0 1\r\nx\r\ngat 0 a nope a\r\n", STORED + val(b"a", b"x") * 2 + END),
    "-1 returns it once more": (b"set a 0 0 1\r\nx\r\ngat -1 a\r\nget a\r\n", STORED + hit(b"a", b"x") + END),
    "-1, the same key twice": (b"set a 0 0 1\r\nx\r\ngat -1 a a\r\n", STORED + hit(b"a", b"x")),
    "absolute, in the past": (b"set a 0 0 1\r\nx\r\ngat 1000000000 a\r\nget a\r\n", STORED + hit(b"a", b"x") + END),
    "30 days is relative": (b"set a 0 0 1\r\nx\r\ngat 2592000 a\r\nget a\r\n", STORED + hit(b"a", b"x") * 2),
    "word for exptime": (b"gat soon a\r\n", BAD_EXPTIME),
    "gats, word for exptime": (b"gats soon a\r\n", BAD_EXPTIME),
    "key of 251 bytes": (b"gat 0 %b\r\n" % K251, BAD_FORMAT),
}

STORE = {
    "set overwrites": (b"set a 1 0 1\r\nx\r\nset a 2 0 2\r\nyy\r\nget a\r\n", STORED * 2 + hit(b"a", b"yy", 2)),
    "empty value": (b"set a 0 0 0\r\n\r\nget a\r\n", STORED + hit(b"a", b"")),
    "add": (b"add a 3 0 1\r\nx\r\nadd a 4 0 1\r\ny\r\nget a\r\n", STORED + NOT_STORED + hit(b"a", b"x", 3)),
    "replace": (
        b"replace a 0 0 1\r\nx\r\nset a 0 0 1\r\nx\r\nreplace a 7 0 1\r\ny\r\nget a\r\n",
        NOT_STORED + STORED * 2 + hit(b"a", b"y", 7),
    ),
    "append and prepend keep flags and ignore theirs": (
        b"set a 7 0 1\r\nb\r\nappend a 9 0 1\r\nc\r\nprepend a 3 0 1\r\na\r\nget a\r\n",
        STORED * 3 + hit(b"a", b"abc", 7),
    ),
    "append ignores its exptime": (
        b"set a 0 0 1\r\nb\r\nappend a 0 -1 1\r\nc\r\nget a\r\n", STORED * 2 + hit(b"a", b"bc")
    ),
    "append an empty value": (b"set a 0 0 1\r\nb\r\nappend a 0 0 0\r\n\r\nget a\r\n", STORED * 2 + hit(b"a", b"b")),
    "append to nothing": (b"append a 0 0 1\r\nx\r\nget a\r\n", NOT_STORED + END),
    "prepend to nothing": (b"prepend a 0 0 1\r\nx\r\nget a\r\n", NOT_STORED + END),
    "flags 2^32-1": (b"set a 4294967295 0 1\r\nx\r\nget a\r\n", STORED + hit(b"a", b"x", 4294967295)),
    "flags 2^31": (b"set a 2147483648 0 1\r\nx\r\nget a\r\n", STORED + hit(b"a", b"x", 2147483648)),
    "flags with zeros in front": (b"set a 007 0 1\r\nx\r\nget a\r\n", STORED + hit(b"a", b"x", 7)),
    "spaces between words": (b"set  a  5  0  1 \r\nx\r\nget a\r\n", STORED + hit(b"a", b"x", 5)),
    "unknown word where noreply goes": (b"set a 0 0 1 foo\r\nx\r\n", STORED),
    "NOREPLY is not noreply": (b"set a 0 0 1 NOREPLY\r\nx\r\n", STORED),
    "value of line ends": (b"set a 0 0 6\r\n\r\n\r\n\r\n\r\nget a\r\n", STORED + hit(b"a", b"\r\n\r\n\r\n")),
    "value like a reply": (
        b"set a 0 0 20\r\nEND\r\nVALUE a 0 1\r\n\r\n\r\nget a\r\n",
        STORED + hit(b"a", b"END\r\nVALUE a 0 1\r\n\r\n"),
    ),
    "value of all bytes": (
        b"set a 0 0 256\r\n" + bytes(range(256)) + b"\r\nget a\r\n", STORED + hit(b"a", bytes(range(256)))
    ),
    "key of 250 bytes": (b"add %b 0 0 1\r\nx\r\n" % K250, STORED),
}

EXPIRY = {
    "0 is for ever": (b"set a 0 0 1\r\nx\r\nget a\r\n", STORED + hit(b"a", b"x")),
    "relative": (b"set a 0 1000 1\r\nx\r\nget a\r\n", STORED + hit(b"a", b"x")),
    "30 days is relative": (b"set a 0 %d 1\r\nx\r\nget a\r\n" % DAYS_30, STORED + hit(b"a", b"x")),
    "a second more is a date in 1970": (b"set a 0 %d 1\r\nx\r\nget a\r\n" % (DAYS_30 + 1), STORED + END),
    "absolute, in the past": (b"set a 0 1000000000 1\r\nx\r\nget a\r\n", STORED + END),
    "-1": (b"set a 0 -1 1\r\nx\r\nget a\r\n", STORED + END),
    "-2147483648": (b"set a 0 -2147483648 1\r\nx\r\nget a\r\n", STORED + END),
    "-1 hides the old value": (b"set a 0 0 1\r\nx\r\nset a 0 -1 1\r\ny\r\nget a\r\n", STORED * 2 + END),
    "expired is absent to add": (
        b"set a 0 -1 1\r\nx\r\nadd a 0 0 1\r\ny\r\nget a\r\n", STORED * 2 + hit(b"a", b"y")
    ),
    "expired is absent to replace": (b"set a 0 -1 1\r\nx\r\nreplace a 0 0 1\r\ny\r\n", STORED + NOT_STORED),
    "expired is absent to append": (b"set a 0 -1 1\r\nx\r\nappend a 0 0 1\r\ny\r\n", STORED + NOT_STORED),
    "expired is absent to cas": (b"set a 0 -1 1\r\nx\r\ncas a 0 0 1 1\r\ny\r\n", STORED + NOT_FOUND),
    "expired is absent to delete": (b"set a 0 -1 1\r\nx\r\ndelete a\r\n", STORED + NOT_FOUND),
    "expired is absent to incr": (b"set a 0 -1 1\r\n1\r\nincr a 1\r\n", STORED + NOT_FOUND),
    "expired is absent to touch": (b"set a 0 -1 1\r\n1\r\ntouch a 0\r\nget a\r\n", STORED + NOT_FOUND + END),
    "incr keeps the exptime and flags": (
        b"set a 6 1000 1\r\n1\r\nincr a 1\r\nget a\r\n", STORED + b"2\r\n" + hit(b"a", b"2", 6)
    ),
    "touch -1": (b"set a 0 0 1\r\nx\r\ntouch a -1\r\nget a\r\n", STORED + TOUCHED + END),
    "touch 0": (b"set a 0 100 1\r\nx\r\ntouch a 0\r\nget a\r\n", STORED + TOUCHED + hit(b"a", b"x")),
}

TOUCH = {
    "miss": (b"touch a 0\r\n", NOT_FOUND),
    "word for exptime": (b"touch a soon\r\n", BAD_EXPTIME),
    "word for exptime, nothing there": (b"touch nope soon\r\n", BAD_EXPTIME),
    "key of 251 bytes": (b"touch %b 0\r\n" % K251, BAD_FORMAT),
    "unknown word where noreply goes": (b"touch a 0 foo\r\n", NOT_FOUND),
}

DELETE = {
    "hit": (b"set a 0 0 1\r\nx\r\ndelete a\r\nget a\r\n", STORED + DELETED + END),
    "miss": (b"delete a\r\n", NOT_FOUND),
    "twice": (b"set a 0 0 1\r\nx\r\ndelete a\r\ndelete a\r\n", STORED + DELETED + NOT_FOUND),
    "time 0": (b"set a 0 0 1\r\nx\r\ndelete a 0\r\ndelete a 0\r\n", STORED + DELETED + NOT_FOUND),
    "then add": (b"set a 0 0 1\r\nx\r\ndelete a\r\nadd a 0 0 1\r\ny\r\n", STORED + DELETED + STORED),
    "key of 251 bytes": (b"delete %b\r\n" % K251, BAD_FORMAT),
}

ARITHMETIC = {
    "incr": (b"set n 0 0 1\r\n5\r\nincr n 3\r\nget n\r\n", STORED + b"8\r\n" + hit(b"n", b"8")),
    "incr by 0": (b"set n 0 0 1\r\n5\r\nincr n 0\r\n", STORED + b"5\r\n"),
    "incr makes it longer": (b"set n 0 0 2\r\n99\r\nincr n 1\r\nget n\r\n", STORED + b"100\r\n" + hit(b"n", b"100")),
    "incr wraps at 2^64": (
        b"set n 0 0 20\r\n18446744073709551615\r\nincr n 1\r\nget n\r\n",
        STORED + b"0\r\n" + hit(b"n", b"0".ljust(20)),
    ),
    "incr wraps by 2^64-1": (b"set n 0 0 2\r\n10\r\nincr n 18446744073709551615\r\n", STORED + b"9\r\n"),
    "decr": (b"set n 0 0 2\r\n15\r\ndecr n 3\r\nget n\r\n", STORED + b"12\r\n" + hit(b"n", b"12")),
    "decr keeps the length": (b"set n 0 0 2\r\n10\r\ndecr n 1\r\nget n\r\n", STORED + b"9\r\n" + hit(b"n", b"9 ")),
    "decr stops at 0": (b"set n 0 0 3\r\n100\r\ndecr n 101\r\nget n\r\n", STORED + b"0\r\n" + hit(b"n", b"0  ")),
    "decr by 2^64-1": (b"set n 0 0 1\r\n5\r\ndecr n 18446744073709551615\r\n", STORED + b"0\r\n"),
    "the reply is not padded, the value is": (
        b"set n 5 0 2\r\n10\r\ndecr n 9\r\nget n\r\nincr n 1\r\nget n\r\nincr n 100\r\nget n\r\ndecr n 3\r\nget n\r\n",
        STORED + b"1\r\n" + hit(b"n", b"1 ", 5) + b"2\r\n" + hit(b"n", b"2 ", 5)
        + b"102\r\n" + hit(b"n", b"102", 5) + b"99\r\n" + hit(b"n", b"99 ", 5),
    ),
    "zeros in front go": (b"set n 0 0 4\r\n0010\r\nincr n 1\r\nget n\r\n", STORED + b"11\r\n" + hit(b"n", b"11  ")),
    "spaces behind are no text": (b"set n 0 0 4\r\n10  \r\nincr n 1\r\nget n\r\n", STORED + b"11\r\n" + hit(b"n", b"11  ")),
    "append behind padding": (
        b"set n 0 0 2\r\n10\r\ndecr n 1\r\nappend n 0 0 1\r\n5\r\nget n\r\n",
        STORED + b"9\r\n" + STORED + hit(b"n", b"9 5"),
    ),
    "incr miss": (b"incr n 1\r\n", NOT_FOUND),
    "decr miss": (b"decr n 1\r\n", NOT_FOUND),
    "text": (b"set n 0 0 3\r\nfoo\r\nincr n 1\r\ndecr n 1\r\nget n\r\n", STORED + NON_NUMERIC * 2 + hit(b"n", b"foo")),
    "number and text": (b"set n 0 0 3\r\n10x\r\nincr n 1\r\n", STORED + NON_NUMERIC),
    "negative value": (b"set n 0 0 2\r\n-1\r\nincr n 1\r\n", STORED + NON_NUMERIC),
    "empty value": (b"set n 0 0 0\r\n\r\nincr n 1\r\n", STORED + NON_NUMERIC),
    "value of 2^64": (b"set n 0 0 20\r\n18446744073709551616\r\nincr n 1\r\n", STORED + NON_NUMERIC),
    "delta a word": (b"incr n one\r\n", BAD_DELTA),
    "delta negative": (b"incr n -1\r\n", BAD_DELTA),
    "delta with a sign": (b"set n 0 0 1\r\n1\r\nincr n +2\r\nincr n -0\r\nincr n -18446744073709551615\r\n", STORED + b"3\r\n3\r\n4\r\n"),
    "flags with a sign": (b"set n +5 0 1\r\n1\r\nget n\r\nset n -0 0 1\r\n1\r\ncas n 0 0 1 +1\r\n1\r\n", STORED + b"VALUE n 5 1\r\n1\r\nEND\r\n" + STORED + b"EXISTS\r\n"),
    "a memory limit that is none": (b"cache_memlimit x\r\n", b"ERROR\r\n"),
    "delta 2^64": (b"decr n 18446744073709551616\r\n", BAD_DELTA),
    "delta is judged before the value": (b"set n 0 0 1\r\nx\r\nincr n y\r\n", STORED + BAD_DELTA),
    "key of 251 bytes": (b"incr %b 1\r\n" % K251, BAD_FORMAT),
}

CAS = {
    "miss": (b"cas a 0 0 1 1\r\nx\r\nget a\r\n", NOT_FOUND + END),
    "other number": (b"set a 0 0 1\r\nx\r\ncas a 0 0 1 18446744073709551615\r\ny\r\nget a\r\n", STORED + EXISTS + hit(b"a", b"x")),
    "number 0, nothing there": (b"cas a 0 0 1 0\r\nx\r\n", NOT_FOUND),
    "other number, noreply": (
        b"set a 0 0 1\r\nx\r\ncas a 0 0 1 18446744073709551615 noreply\r\ny\r\nget a\r\n", STORED + hit(b"a", b"x")
    ),
}

FLUSH = {
    "all": (b"set a 0 0 1\r\nx\r\nset b 0 0 1\r\ny\r\nflush_all\r\nget a b\r\n", STORED * 2 + OK + END),
    "0": (b"set a 0 0 1\r\nx\r\nflush_all 0\r\nget a\r\n", STORED + OK + END),
    "-1 is now": (b"set a 0 0 1\r\nx\r\nflush_all -1\r\nget a\r\n", STORED + OK + END),
    "noreply": (b"set a 0 0 1\r\nx\r\nflush_all noreply\r\nget a\r\n", STORED + END),
    "0 noreply": (b"set a 0 0 1\r\nx\r\nflush_all 0 noreply\r\nget a\r\n", STORED + END),
    "a date before the server began": (
        b"set a 0 0 1\r\nx\r\nflush_all 1000000000\r\nget a\r\n", STORED + OK + hit(b"a", b"x")
    ),
    "word for delay": (b"set a 0 0 1\r\nx\r\nflush_all soon\r\nget a\r\n", STORED + BAD_EXPTIME + hit(b"a", b"x")),
    "set behind it stays": (
        b"set a 0 0 1\r\nx\r\nflush_all\r\nset a 0 0 1\r\ny\r\nget a\r\n", STORED + OK + STORED + hit(b"a", b"y")
    ),
    "add behind it": (b"set a 0 0 1\r\nx\r\nflush_all\r\nadd a 0 0 1\r\ny\r\n", STORED + OK + STORED),
    "incr behind it": (b"set a 0 0 1\r\n1\r\nflush_all\r\nincr a 1\r\n", STORED + OK + NOT_FOUND),
    "touch behind it": (b"set a 0 0 1\r\n1\r\nflush_all\r\ntouch a 0\r\nget a\r\n", STORED + OK + NOT_FOUND + END),
    "delete behind it": (b"set a 0 0 1\r\n1\r\nflush_all\r\ndelete a\r\n", STORED + OK + NOT_FOUND),
}

REST = {
    "verbosity 0": (b"verbosity 0\r\n", OK),
    "verbosity 1 and back": (b"verbosity 1\r\nverbosity 0\r\n", OK * 2),
    "verbosity, a word": (b"verbosity x\r\n", BAD_FORMAT),
    "verbosity noreply": (b"verbosity 0 noreply\r\n", b""),
    "unknown": (b"bogus\r\n", ERROR),
    "unknown with words": (b"bogus a b c\r\n", ERROR),
    "upper case GET": (b"GET a\r\n", ERROR),
    "upper case SET": (b"SET a 0 0 3\r\nabc\r\n", ERROR * 2),
    "mixed case": (b"Version\r\n", ERROR),
    "command joined by tab": (b"get\ta\r\n", ERROR),
    "stats of nothing": (b"stats foo\r\n", ERROR),
    "only noreply": (b"noreply\r\n", ERROR),
}

#: Commands whose data block is refused: what is consumed decides whether the connection stays in step.
BAD_DATA = {
    "no line end behind the value": (b"set a 0 0 3\r\nabcdeget a\r\n", BAD_CHUNK + END),
    "old value stays": (
        b"set a 0 0 1\r\nx\r\nset a 0 0 3\r\nabcdeget a\r\n", STORED + BAD_CHUNK + hit(b"a", b"x")
    ),
    "only a newline behind the value": (b"set a 0 0 3\r\nabc\n?get a\r\n", BAD_CHUNK + END),
    "noreply": (b"set a 0 0 3 noreply\r\nabcdeget a\r\n", END),
    "add": (b"add a 0 0 3\r\nabcdeget a\r\n", BAD_CHUNK + END),
    "cas": (b"cas a 0 0 3 1\r\nabcdeget a\r\n", BAD_CHUNK + END),
    "append": (b"append a 0 0 3\r\nabcdeget a\r\n", BAD_CHUNK + END),
    "length -1": (b"set a 0 0 -1\r\n", BAD_FORMAT),
    "length -1 and a block": (b"set a 0 0 -1\r\nabc\r\n", BAD_FORMAT + ERROR),
    "length -2147483648": (b"set a 0 0 -2147483648\r\n", BAD_FORMAT),
    "length 2147483647": (b"set a 0 0 2147483647\r\n", BAD_FORMAT),
    "length 2147483648": (b"set a 0 0 2147483648\r\n", BAD_FORMAT),
    "length of 20 nines": (b"set a 0 0 99999999999999999999\r\n", BAD_FORMAT),
    "length a word": (b"set a 0 0 x\r\n", BAD_FORMAT),
    "append of length -1": (b"append a 0 0 -1\r\n", BAD_FORMAT),
    "cas of length -1": (b"cas a 0 0 -1 1\r\n", BAD_FORMAT),
}

BIG = b"x" * MIB

#: A value that fits no segment: the block is consumed, then the error comes. Only set drops the old value.
OVERSIZE = {
    "set": (b"set a 0 0 %d\r\n%b\r\nget a\r\n" % (MIB, BIG), TOO_LARGE + END),
    "set drops the old value": (
        b"set a 0 0 1\r\nx\r\nset a 0 0 %d\r\n%b\r\nget a\r\n" % (MIB, BIG), STORED + TOO_LARGE + END
    ),
    "noreply": (b"set a 0 0 1\r\nx\r\nset a 0 0 %d noreply\r\n%b\r\nget a\r\n" % (MIB, BIG), STORED + END),
    "add": (b"set a 0 0 1\r\nx\r\nadd a 0 0 %d\r\n%b\r\nget a\r\n" % (MIB, BIG), STORED + TOO_LARGE + hit(b"a", b"x")),
    "replace": (
        b"set a 0 0 1\r\nx\r\nreplace a 0 0 %d\r\n%b\r\nget a\r\n" % (MIB, BIG), STORED + TOO_LARGE + hit(b"a", b"x")
    ),
    "append": (
        b"set a 0 0 1\r\nx\r\nappend a 0 0 %d\r\n%b\r\nget a\r\n" % (MIB, BIG), STORED + TOO_LARGE + hit(b"a", b"x")
    ),
    "cas": (b"set a 0 0 1\r\nx\r\ncas a 0 0 %d 1\r\n%b\r\nget a\r\n" % (MIB, BIG), STORED + TOO_LARGE + hit(b"a", b"x")),
    "append of parts that fit": (
        b"set a 0 0 %d\r\n%b\r\nappend a 0 0 %d\r\n%b\r\n" % (MIB - 9000, BIG[9000:], 9000, BIG[:9000]),
        STORED + NOT_STORED,
    ),
}

TABLES = {
    "get": GET,
    "gat": GAT,
    "store": STORE,
    "expiry": EXPIRY,
    "touch": TOUCH,
    "delete": DELETE,
    "arithmetic": ARITHMETIC,
    "cas": CAS,
    "flush": FLUSH,
    "rest": REST,
    "bad data": BAD_DATA,
    "oversize": OVERSIZE,
}

ROWS = [
    pytest.param(request, reply, id=f"{table}: {name}")
    for table, rows in TABLES.items()
    for name, (request, reply) in rows.items()
]


@pytest.mark.parametrize("request_bytes, reply", ROWS)
def test_row(wire, request_bytes, reply):
    got = wire.ask(request_bytes)
    assert got == reply, f"\n   sent {short(request_bytes)}\n    got {short(got)}\n wanted {short(reply)}"


#: (first, command with noreply, get of it behind)
NOREPLY = [
    (b"", b"set a 1 0 1 noreply\r\nx\r\n", hit(b"a", b"x", 1)),
    (b"", b"add a 1 0 1 noreply\r\nx\r\n", hit(b"a", b"x", 1)),
    (b"set a 0 0 1\r\nb\r\n", b"add a 1 0 1 noreply\r\nx\r\n", hit(b"a", b"b")),
    (b"set a 0 0 1\r\nb\r\n", b"replace a 1 0 1 noreply\r\nx\r\n", hit(b"a", b"x", 1)),
    (b"", b"replace a 1 0 1 noreply\r\nx\r\n", END),
    (b"set a 0 0 1\r\nb\r\n", b"append a 1 0 1 noreply\r\nx\r\n", hit(b"a", b"bx")),
    (b"", b"append a 1 0 1 noreply\r\nx\r\n", END),
    (b"set a 0 0 1\r\nb\r\n", b"prepend a 1 0 1 noreply\r\nx\r\n", hit(b"a", b"xb")),
    (b"", b"prepend a 1 0 1 noreply\r\nx\r\n", END),
    (b"", b"cas a 1 0 1 1 noreply\r\nx\r\n", END),
    (b"set a 0 0 1\r\nb\r\n", b"delete a noreply\r\n", END),
    (b"", b"delete a noreply\r\n", END),
    (b"set a 0 0 1\r\nb\r\n", b"delete a 0 noreply\r\n", END),
    (b"set a 0 0 1\r\n1\r\n", b"incr a 2 noreply\r\n", hit(b"a", b"3")),
    (b"", b"incr a 2 noreply\r\n", END),
    (b"set a 0 0 1\r\nb\r\n", b"incr a 2 noreply\r\n", hit(b"a", b"b")),
    (b"set a 0 0 1\r\nb\r\n", b"incr a x noreply\r\n", hit(b"a", b"b")),
    (b"set a 0 0 1\r\n3\r\n", b"decr a 2 noreply\r\n", hit(b"a", b"1")),
    (b"", b"decr a 2 noreply\r\n", END),
    (b"set a 0 0 1\r\nb\r\n", b"touch a -1 noreply\r\n", END),
    (b"", b"touch a 0 noreply\r\n", END),
    (b"set a 0 0 1\r\nb\r\n", b"flush_all noreply\r\n", END),
    (b"set a 0 0 1\r\nb\r\n", b"verbosity 0 noreply\r\n", hit(b"a", b"b")),
]


@pytest.mark.parametrize("first, quiet, behind", NOREPLY, ids=[quiet.split(b"\r")[0].decode() for _, quiet, _ in NOREPLY])
def test_noreply(wire, first, quiet, behind):
    assert wire.ask(first) == (STORED if first else b"")
    assert wire.ask(quiet) == b""
    assert wire.ask(b"get a\r\n") == behind


@pytest.mark.parametrize("command", [b"get", b"gets", b"gat 0", b"gats 0"])
def test_one_key_too_long_spoils_a_multi_get(wire, command):
    """One error and no hit, wherever the key stands."""
    assert wire.ask(b"set a 0 0 1\r\nx\r\n") == STORED
    assert wire.ask(b"%b a %b\r\n" % (command, K251)) == BAD_FORMAT
    assert wire.ask(b"%b %b a\r\n" % (command, K251)) == BAD_FORMAT
    assert wire.ask(b"%b a %b a\r\n" % (command, K251)) == BAD_FORMAT


def test_version(wire):
    assert wire.ask(b"version\r\n") == wire.version_line
    assert wire.ask(b"version foo\r\n") == wire.version_line
    assert wire.version_line.startswith(b"VERSION 1.6.")


@pytest.mark.parametrize("request_bytes", [b"quit\r\n", b"quit\n", b"quit noreply\r\n", b"quit now\r\n"])
def test_quit(server, request_bytes):
    with server.wire() as wire:
        wire.send(b"get a\r\n" + request_bytes + b"get b\r\n")
        assert wire.read_to_close() == END, "replies before quit come, requests behind it are not run"


def test_absolute_exptime_in_the_future(wire):
    at = int(time.time()) + 1000
    assert wire.ask(b"set a 0 %d 1\r\nx\r\nget a\r\n" % at) == STORED + hit(b"a", b"x")
    assert wire.ask(b"touch a %d\r\nget a\r\n" % at) == TOUCHED + hit(b"a", b"x")
    assert wire.ask(b"gat %d a\r\nget a\r\n" % at) == hit(b"a", b"x") * 2


def until_gone(wire, key):
    """Asks until `key` is absent. Asking paces itself: one round trip a turn."""
    until = time.monotonic() + DEADLINE_S
    while wire.value(key) is not None:
        assert time.monotonic() < until, f"{key} never expires"


def test_relative_exptimes_pass(wire):
    wire.ask(b"set a 0 1 1\r\nx\r\nset b 0 0 1\r\nx\r\nset c 0 0 1\r\nx\r\nset d 0 0 1\r\nx\r\n")
    wire.ask(b"touch b 1\r\ngat 1 c\r\n")
    for key in (b"a", b"b", b"c"):
        until_gone(wire, key)
    assert wire.value(b"d") == b"x"


def test_absolute_exptime_passes(wire):
    wire.ask(b"set a 0 %d 1\r\nx\r\n" % (int(time.time()) + 2))
    until_gone(wire, b"a")


def test_flush_all_with_delay_waits(fresh):
    """A server of its own: a flush to come would hit other tests' items."""
    with fresh().wire() as wire:
        wire.ask(b"set a 0 0 1\r\nx\r\n")
        assert wire.ask(b"flush_all 1000\r\nget a\r\n") == OK + hit(b"a", b"x")
        assert wire.ask(b"flush_all 1000 noreply\r\nget a\r\n") == hit(b"a", b"x")
        assert wire.ask(b"flush_all\r\nget a\r\n") == OK + END
        wire.ask(b"set a 0 0 1\r\nx\r\n")
        assert wire.ask(b"flush_all 2\r\n") == OK
        until_gone(wire, b"a")
        wire.ask(b"set a 0 0 1\r\nx\r\n")
        assert wire.ask(b"flush_all 1\r\nget a\r\n") == OK + END, "a second is up at once"
        # memcached counts in seconds: what is set within the second of the flush may go with it.
        until = time.monotonic() + DEADLINE_S
        while wire.ask(b"set b 0 0 1\r\ny\r\nget b\r\n") != STORED + hit(b"b", b"y"):
            assert time.monotonic() < until, "nothing can be stored after a delayed flush"


@pytest.mark.parametrize("length", [1, 2, 249, 250])
def test_key_lengths(wire, length):
    key = b"K" * length
    request = b"".join(
        [
            set_request(key, b"1"),
            b"add %b 0 0 1\r\n2\r\n" % key,
            b"append %b 0 0 1\r\n2\r\n" % key,
            b"incr %b 1\r\n" % key,
            b"touch %b 0\r\n" % key,
            b"gat 0 %b\r\n" % key,
            b"delete %b\r\n" % key,
            b"get %b\r\n" % key,
        ]
    )
    reply = STORED + NOT_STORED + STORED + b"13\r\n" + TOUCHED + hit(key, b"13") + DELETED + END
    assert wire.ask(request) == reply


@pytest.mark.parametrize(
    "length", [0, 1, 2, 1023, 2046, 2047, 2048, 2049, 4096, 16383, 16384, 16385, 65535, 65536, 65537, 262144, 524289, 1000000]
)
def test_value_lengths(wire, length):
    value = (bytes(range(256)) * (length // 256 + 1))[:length]
    assert wire.ask(set_request(b"v", value, flags=length)) == STORED
    got = wire.ask(b"get v v\r\n")
    assert got == val(b"v", value, length) * 2 + END, short(got)


def test_thousand_keys_in_one_line(wire):
    keys = [b"key:%04d" % i for i in range(1000)]
    wire.ask(b"".join(set_request(key, key * 3, flags=i, noreply=True) for i, key in enumerate(keys)))
    got = wire.ask(b"get " + b" ".join(keys) + b"\r\n")
    assert got == b"".join(val(key, key * 3, i) for i, key in enumerate(keys)) + END
    assert wire.ask(b"get " + b" ".join(b"nope:%04d" % i for i in range(1000)) + b"\r\n") == END


def test_thousand_longest_keys_in_one_line(wire):
    keys = [b"%04d" % i + b"k" * 246 for i in range(1000)]
    wire.ask(b"".join(set_request(key, b"x", noreply=True) for key in keys[::2]))
    got = wire.ask(b"gets " + b" ".join(keys) + b"\r\n")
    assert [line.split()[1] for line in got.split(b"\r\n") if line.startswith(b"VALUE")] == keys[::2]


def test_hundred_requests_in_one_send(wire):
    requests = [b"set k%d 0 0 3\r\n%03d\r\nget k%d\r\n" % (i, i, i) for i in range(100)]
    replies = [STORED + hit(b"k%d" % i, b"%03d" % i) for i in range(100)]
    assert wire.ask(b"".join(requests)) == b"".join(replies)


def test_replies_keep_the_order_of_requests(wire):
    big = b"b" * 100_000
    wire.ask(set_request(b"big", big))
    got = wire.ask(b"get big\r\nget nope\r\nincr nope 1\r\nget big\r\nbogus\r\n" * 20)
    assert got == (hit(b"big", big) + END + NOT_FOUND + hit(b"big", big) + ERROR) * 20, short(got)


def test_a_value_is_its_sender_s_bytes_when_overwritten_in_one_batch(wire):
    """Replies that wait to be sent must not show a later write."""
    old, new = b"o" * 5000, b"n" * 5000
    request = set_request(b"a", old) + b"get a\r\n" + set_request(b"a", new) + b"get a\r\ndelete a\r\nget a\r\n"
    got = wire.ask(request)
    assert got == STORED + hit(b"a", old) + STORED + hit(b"a", new) + DELETED + END, short(got)


def test_half_closed_client_gets_its_replies(server):
    """`printf 'get a\\r\\n' | nc` closes its sending side at once."""
    with server.wire() as wire:
        wire.send(b"set h 0 0 1\r\nx\r\nget h\r\n")
        wire.sock.shutdown(socket.SHUT_WR)
        assert wire.read_to_close() == STORED + hit(b"h", b"x")
