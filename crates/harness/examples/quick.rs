//! scratch
#![allow(clippy::print_stdout, reason="x")]
fn main() {
    let a: Vec<String> = std::env::args().collect();
    let mut t = lab::open(std::path::Path::new(&a[1]), None).unwrap();
    let o = harness::replay::ReplayOptions { memory: a[2].parse().unwrap(), policy: a[3].clone(), rank: a[4].parse().unwrap(), seed: a.get(5).map_or(0, |s| s.parse().unwrap()), limit: a.get(6).map(|s| s.parse().unwrap()), pass_width: std::env::var("W").ok().map(|w| w.parse().unwrap()), ..Default::default() };
    let r = harness::replay::in_process(o, &mut [&mut *t], &mut |_| {}).unwrap();
    println!("{:.4} moved {:?} {}", r.hit_ratio(), r.cleaner_moved_bytes.map(units::Bytes), if std::env::var("T").is_ok() { r.to_table() } else { String::new() });
}
