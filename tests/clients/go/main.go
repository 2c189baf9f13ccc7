// What gomemcache can do, against the server at HOST PORT. Prints how many checks passed.
package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"time"

	"github.com/bradfitz/gomemcache/memcache"
)

// Longest wait for a time to live of one second to pass.
const expiryDeadline = 10 * time.Second

var count int

func check(what string, holds bool) {
	if !holds {
		fmt.Println("failed:", what)
		os.Exit(1)
	}
	count++
}

func item(key, value string) *memcache.Item {
	return &memcache.Item{Key: key, Value: []byte(value)}
}

func is(client *memcache.Client, key, wanted string) {
	got, err := client.Get(key)
	check(fmt.Sprintf("get %s: %v", key, err), err == nil && string(got.Value) == wanted)
}

func main() {
	if len(os.Args) != 3 {
		fmt.Println("usage: conformance HOST PORT")
		os.Exit(2)
	}
	client := memcache.New(net.JoinHostPort(os.Args[1], os.Args[2]))
	client.Timeout = 10 * time.Second
	defer client.Close()

	check("ping", client.Ping() == nil)
	check("flush", client.FlushAll() == nil)
	stores(client)
	numbers(client)
	compareAndSwap(client)
	many(client)
	large(client)
	times(client)
	check("delete", client.Delete("text") == nil)
	check("delete of none", errors.Is(client.Delete("text"), memcache.ErrCacheMiss))
	check("flush all", client.DeleteAll() == nil)
	_, err := client.Get("log")
	check("get after flush", errors.Is(err, memcache.ErrCacheMiss))
	fmt.Println(count, "checks passed")
}

func stores(client *memcache.Client) {
	check("set", client.Set(&memcache.Item{Key: "text", Value: []byte("käse"), Flags: 4294967295}) == nil)
	got, err := client.Get("text")
	check("get", err == nil && string(got.Value) == "käse" && got.Flags == 4294967295)
	check("set of line ends", client.Set(item("ends", "\r\nEND\r\n\x00")) == nil)
	is(client, "ends", "\r\nEND\r\n\x00")
	check("set of nothing", client.Set(item("empty", "")) == nil)
	is(client, "empty", "")
	check("add over another", errors.Is(client.Add(item("text", "no")), memcache.ErrNotStored))
	check("add", client.Add(item("new", "yes")) == nil)
	check("replace", client.Replace(item("new", "still")) == nil)
	check("replace of none", errors.Is(client.Replace(item("none", "no")), memcache.ErrNotStored))
	check("set for append", client.Set(item("log", "b")) == nil)
	check("append", client.Append(item("log", "c")) == nil)
	check("prepend", client.Prepend(item("log", "a")) == nil)
	is(client, "log", "abc")
	check("append to none", errors.Is(client.Append(item("none", "x")), memcache.ErrNotStored))
	_, err = client.Get("none")
	check("get of none", errors.Is(err, memcache.ErrCacheMiss))
	check("longest key", client.Set(item(string(bytes.Repeat([]byte("k"), 250)), "x")) == nil)
}

func numbers(client *memcache.Client) {
	check("set of a number", client.Set(item("number", "42")) == nil)
	sum, err := client.Increment("number", 8)
	check("increment", err == nil && sum == 50)
	sum, err = client.Decrement("number", 100)
	check("decrement below zero", err == nil && sum == 0)
	_, err = client.Increment("none", 1)
	check("increment of none", errors.Is(err, memcache.ErrCacheMiss))
	_, err = client.Increment("text", 1)
	check("increment of text", err != nil)
}

func compareAndSwap(client *memcache.Client) {
	first, err := client.Get("text")
	check("get with its number", err == nil)
	first.Value = []byte("two")
	check("swap", client.CompareAndSwap(first) == nil)
	first.Value = []byte("three")
	check("swap again", errors.Is(client.CompareAndSwap(first), memcache.ErrCASConflict))
	is(client, "text", "two")
	check("delete before a swap", client.Delete("text") == nil)
	check("swap of none", errors.Is(client.CompareAndSwap(first), memcache.ErrCacheMiss))
	check("set back", client.Set(item("text", "two")) == nil)
}

func many(client *memcache.Client) {
	var keys []string
	for i := 0; i < 200; i++ {
		key := fmt.Sprint("many", i)
		if i%2 == 0 {
			check("set of many", client.Set(item(key, fmt.Sprint(i))) == nil)
		}
		keys = append(keys, key)
	}
	got, err := client.GetMulti(keys)
	check("get of many", err == nil && len(got) == 100 && string(got["many42"].Value) == "42")
}

func large(client *memcache.Client) {
	value := bytes.Repeat([]byte("0123456789"), 100_000)
	check("set of a megabyte", client.Set(&memcache.Item{Key: "large", Value: value}) == nil)
	got, err := client.Get("large")
	check("get of a megabyte", err == nil && bytes.Equal(got.Value, value))
	check("set of too much", client.Set(&memcache.Item{Key: "large", Value: make([]byte, 2<<20)}) != nil)
	check("ping after it", client.Ping() == nil)
}

func times(client *memcache.Client) {
	check("touch", client.Touch("text", 1000) == nil)
	check("touch of none", errors.Is(client.Touch("none", 1), memcache.ErrCacheMiss))
	got, err := client.GetAndTouch("text", 1000)
	check("get and touch", err == nil && string(got.Value) == "two")
	check("set in the past", client.Set(&memcache.Item{Key: "past", Value: []byte("x"), Expiration: -1}) == nil)
	_, err = client.Get("past")
	check("get of the past", errors.Is(err, memcache.ErrCacheMiss))
	check("set for a second", client.Set(&memcache.Item{Key: "soon", Value: []byte("x"), Expiration: 1}) == nil)
	until := time.Now().Add(expiryDeadline)
	for err = nil; err == nil && time.Now().Before(until); {
		_, err = client.Get("soon")
	}
	check("expiry", errors.Is(err, memcache.ErrCacheMiss))
}
