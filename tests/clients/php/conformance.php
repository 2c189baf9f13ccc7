<?php
// What PHP's Memcached (libmemcached) can do, against the server at HOST PORT, in text and binary, or with
// USER PASSWORD over SASL. Prints how many checks passed.

/** Longest wait for a time to live of one second to pass. */
const DEADLINE_S = 10;

$count = 0;

function check(string $what, bool $holds): void
{
    global $count;
    if (!$holds) {
        echo "failed: $what\n";
        exit(1);
    }
    $count++;
}

function connect(string $host, int $port, bool $binary): Memcached
{
    $client = new Memcached();
    $client->setOption(Memcached::OPT_BINARY_PROTOCOL, $binary);
    $client->addServer($host, $port);
    return $client;
}

function stores(Memcached $client): void
{
    check('set', $client->set('text', 'käse'));
    check('get', $client->get('text') === 'käse');
    check('set of an array', $client->set('array', ['a' => [1, 2.5, null]]));
    check('get of an array', $client->get('array') === ['a' => [1, 2.5, null]]);
    check('set of line ends', $client->set('ends', "\r\nEND\r\n\0"));
    check('get of line ends', $client->get('ends') === "\r\nEND\r\n\0");
    check('add over another', !$client->add('text', 'no') && $client->getResultCode() === Memcached::RES_NOTSTORED
        || $client->getResultCode() === Memcached::RES_DATA_EXISTS);
    check('add', $client->add('new', 'yes'));
    check('replace', $client->replace('new', 'still'));
    check('replace of none', !$client->replace('none', 'no'));
    $client->setOption(Memcached::OPT_COMPRESSION, false);
    check('set for append', $client->set('log', 'b'));
    check('append', $client->append('log', 'c'));
    check('prepend', $client->prepend('log', 'a'));
    check('get of all three', $client->get('log') === 'abc');
    check('append to none', !$client->append('none', 'x'));
    check('get of none', $client->get('none') === false && $client->getResultCode() === Memcached::RES_NOTFOUND);
}

function numbers(Memcached $client, bool $binary): void
{
    check('set of a number', $client->set('number', 42));
    check('increment', $client->increment('number', 8) === 50);
    check('decrement below zero', $client->decrement('number', 100) === 0);
    check('increment of none', $client->increment('none', 1) === false);
    if ($binary) {
        // The text protocol cannot create.
        check('increment that creates', $client->increment('made', 1, 7) === 7);
    }
}

function swaps(Memcached $client): void
{
    $seen = $client->get('text', null, Memcached::GET_EXTENDED);
    check('gets', $seen['value'] === 'käse' && $seen['cas'] > 0);
    check('swap', $client->cas($seen['cas'], 'text', 'two'));
    check('swap again', !$client->cas($seen['cas'], 'text', 'three'));
    check('its reason', $client->getResultCode() === Memcached::RES_DATA_EXISTS);
    check('get after swaps', $client->get('text') === 'two');
}

function many(Memcached $client): void
{
    $items = [];
    for ($i = 0; $i < 200; $i += 2) {
        $items["many$i"] = "$i";
    }
    check('set of many', $client->setMulti($items));
    $keys = array_map(fn ($i) => "many$i", range(0, 199));
    check('get of many', $client->getMulti($keys) == $items);
    $client->setOption(Memcached::OPT_NOREPLY, true);
    foreach (array_keys($items) as $key) {
        $client->delete($key);
    }
    $client->setOption(Memcached::OPT_NOREPLY, false);
    check('get of many deleted in silence', $client->getMulti($keys) === []);
}

function times(Memcached $client): void
{
    check('touch', $client->touch('text', 1000));
    check('touch of none', !$client->touch('none', 1000));
    check('set for a second', $client->set('soon', 'x', 1));
    $until = microtime(true) + DEADLINE_S;
    while ($client->get('soon') !== false && microtime(true) < $until) {
    }
    check('expiry', $client->get('soon') === false && $client->getResultCode() === Memcached::RES_NOTFOUND);
}

function run(Memcached $client, bool $binary): void
{
    $version = current($client->getVersion());
    check("version $version", preg_match('/^1\.6\.\d+$/', $version) === 1);
    check('flush', $client->flush());
    stores($client);
    numbers($client, $binary);
    swaps($client);
    many($client);
    $large = random_bytes(1000000);
    check('set of a megabyte', $client->set('large', $large));
    check('get of a megabyte', $client->get('large') === $large);
    times($client);
    $stats = current($client->getStats());
    check('stats', $stats['pid'] > 0 && isset($stats['curr_items']));
    check('delete', $client->delete('text'));
    check('delete of none', !$client->delete('text'));
    check('flush at the end', $client->flush());
    check('get after it', $client->get('log') === false);
}

[, $host, $port] = $argv;
if (isset($argv[4])) {
    $client = connect($host, (int) $port, true);
    $client->setSaslAuthData($argv[3], $argv[4]);
    run($client, true);
    $stranger = connect($host, (int) $port, true);
    $stranger->setSaslAuthData($argv[3], 'wrong');
    check('a wrong password is refused', !$stranger->set('text', 'x'));
} else {
    run(connect($host, (int) $port, false), false);
    run(connect($host, (int) $port, true), true);
}
echo "$count checks passed\n";
