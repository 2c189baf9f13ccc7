// What memjs can do, in binary, against the server at HOST PORT, with USER PASSWORD over SASL where they are given.
// Prints how many checks passed.
'use strict';

const memjs = require('memjs');

// Longest wait for an answer, and for a time to live of one second to pass.
const DEADLINE_S = 10;

const silent = { log() {} };
let count = 0;

function check(what, holds) {
  if (!holds) {
    console.log(`failed: ${what}`);
    process.exit(1);
  }
  count += 1;
}

async function is(client, key, wanted) {
  const { value } = await client.get(key);
  check(`get ${key}`, wanted === null ? value === null : value.equals(Buffer.from(wanted)));
}

async function stores(client) {
  check('set', await client.set('text', 'käse', {}));
  await is(client, 'text', 'käse');
  check('set of line ends', await client.set('ends', '\r\nEND\r\n\0', {}));
  await is(client, 'ends', '\r\nEND\r\n\0');
  check('add over another', !(await client.add('text', 'no', {})));
  check('add', await client.add('new', 'yes', {}));
  check('replace', await client.replace('new', 'still', {}));
  check('replace of none', !(await client.replace('none', 'no', {})));
  check('set for append', await client.set('log', 'b', {}));
  check('append', await client.append('log', 'c'));
  await is(client, 'log', 'bc');
  // Its prepend sends an append, to any server.
  check('prepend', await client.prepend('log', 'd'));
  await is(client, 'log', 'bcd');
  check('append to none', await client.append('none', 'x').then(() => false, () => true));
  await is(client, 'none', null);
}

async function numbers(client) {
  check('increment that creates', (await client.increment('number', 1, { initial: 42 })).value === 42);
  check('increment', (await client.increment('number', 8, {})).value === 50);
  check('decrement below zero', (await client.decrement('number', 100, {})).value === 0);
}

async function many(client) {
  const all = Array.from({ length: 200 }, (_, i) => i);
  const stored = await Promise.all(all.filter((i) => i % 2 === 0).map((i) => client.set(`many${i}`, `${i}`, {})));
  check('set of many at once', stored.every(Boolean));
  const got = await Promise.all(all.map((i) => client.get(`many${i}`)));
  check('get of many at once', got.every(({ value }, i) => (i % 2 === 0 ? value.toString() === `${i}` : value === null)));
}

async function times(client) {
  check('touch', await client.touch('text', 1000));
  check('touch of none', !(await client.touch('none', 1000)));
  check('set for a second', await client.set('soon', 'x', { expires: 1 }));
  const until = Date.now() + DEADLINE_S * 1000;
  while ((await client.get('soon')).value !== null && Date.now() < until);
  await is(client, 'soon', null);
}

function each(act) {
  return new Promise((resolve, reject) => {
    act((error, _server, result) => (error ? reject(error) : resolve(result)));
  });
}

async function refused(address, username) {
  const client = memjs.Client.create(address, { username, password: 'wrong', retries: 0, timeout: DEADLINE_S, logger: silent });
  let said = null;
  try {
    await client.get('text');
  } catch (error) {
    said = error;
  }
  check('a wrong password is refused', said !== null);
  client.close();
}

async function main() {
  const [host, port, username, password] = process.argv.slice(2);
  const options = username === undefined ? {} : { username, password };
  const client = memjs.Client.create(`${host}:${port}`, { ...options, retries: 0, timeout: DEADLINE_S, logger: silent });
  check('flush', (await client.flush()) !== false);
  await stores(client);
  await numbers(client);
  await many(client);
  const large = Buffer.alloc(1000000, '0123456789');
  check('set of a megabyte', await client.set('large', large, {}));
  await is(client, 'large', large);
  await times(client);
  const stats = await each((done) => client.stats(done));
  check('stats', Number(stats.pid) > 0 && 'curr_items' in stats);
  check('delete', await client.delete('text'));
  check('delete of none', !(await client.delete('text')));
  check('flush at the end', (await client.flush()) !== false);
  await is(client, 'log', null);
  client.close();
  if (username !== undefined) await refused(`${host}:${port}`, username);
  console.log(`${count} checks passed`);
}

main().catch((error) => {
  console.log(`failed: ${error.stack}`);
  process.exit(1);
});
