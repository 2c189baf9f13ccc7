# What Dalli can do, in binary, against the server at HOST PORT, with USER PASSWORD over SASL where they are given.
# Prints how many checks passed.

require 'dalli'

# Longest wait for a time to live of one second to pass.
DEADLINE_S = 10
@count = 0

def check(what, holds)
  unless holds
    puts "failed: #{what}"
    exit 1
  end
  @count += 1
end

def stores(client)
  check 'set', client.set('text', 'käse')
  check 'get', client.get('text') == 'käse'
  check 'set of an object', client.set('object', { a: [1, 2.5, nil] })
  check 'get of an object', client.get('object') == { a: [1, 2.5, nil] }
  check 'set of line ends', client.set('ends', "\r\nEND\r\n\0")
  check 'get of line ends', client.get('ends') == "\r\nEND\r\n\0"
  check 'add over another', !client.add('text', 'no')
  check 'add', client.add('new', 'yes')
  check 'replace', client.replace('new', 'still')
  # It says 0, as the CAS number of nothing.
  check 'replace of none', [0, false, nil].include?(client.replace('none', 'no'))
  check 'set for append', client.set('log', 'b', 0, raw: true)
  check 'append', client.append('log', 'c')
  check 'prepend', client.prepend('log', 'a')
  check 'get of all three', client.get('log', raw: true) == 'abc'
  check 'get of none', client.get('none').nil?
end

def numbers(client)
  check 'set of a number', client.set('number', 42, 0, raw: true)
  check 'increment', client.incr('number', 8) == 50
  check 'decrement below zero', client.decr('number', 100).zero?
  check 'increment of none', client.incr('none', 1).nil?
  check 'increment that creates', client.incr('made', 1, 0, 7) == 7
end

def swaps(client)
  value, number = client.get_cas('text')
  check 'get with its number', value == 'käse' && number.positive?
  check 'swap', client.set_cas('text', 'two', number)
  check 'swap again', !client.set_cas('text', 'three', number)
  check 'swap in a block', client.cas('text') { |old| "#{old} and a half" }
  check 'get after swaps', client.get('text') == 'two and a half'
end

def many(client)
  client.multi { (0...200).step(2) { |i| client.set("many#{i}", i.to_s) } }
  got = client.get_multi((0...200).map { |i| "many#{i}" })
  check 'get of many set in silence', got == (0...200).step(2).to_h { |i| ["many#{i}", i.to_s] }
end

def times(client)
  check 'touch', client.touch('text', 1000)
  check 'touch of none', !client.touch('none', 1000)
  check 'get and touch', client.gat('text', 1000) == 'two and a half'
  check 'set for a second', client.set('soon', 'x', 1)
  deadline = Process.clock_gettime(Process::CLOCK_MONOTONIC) + DEADLINE_S
  nil while client.get('soon') && Process.clock_gettime(Process::CLOCK_MONOTONIC) < deadline
  check 'expiry', client.get('soon').nil?
end

host, port, user, password = ARGV
Dalli.logger.level = Logger::FATAL
options = user ? { username: user, password: password } : {}
client = Dalli::Client.new("#{host}:#{port}", options)
check 'version', client.version.values.first.match?(/\A1\.6\.\d+\z/)
check 'flush', client.flush.all?
stores client
numbers client
swaps client
many client
large = Random.new(1).bytes(1_000_000)
check 'set of a megabyte', client.set('large', large, 0, raw: true)
check 'get of a megabyte', client.get('large', raw: true) == large
times client
stats = client.stats.values.first
check 'stats', stats['pid'].to_i.positive? && stats.key?('curr_items')
check 'delete', client.delete('text')
check 'delete of none', !client.delete('text')
check 'flush at the end', client.flush.all?
check 'get after it', client.get('log').nil?
client.close
if user
  begin
    Dalli::Client.new("#{host}:#{port}", username: user, password: 'wrong').get('text')
    check 'a wrong password is refused', false
  rescue Dalli::DalliError
    check 'a wrong password is refused', true
  end
end
puts "#{@count} checks passed"
