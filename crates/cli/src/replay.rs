//! `replay`: traces through the store, or against a server.

use crate::clock::SystemClock;
use crate::failure::{Code, Failure, say};
use crate::plan::one_of;
use harness::Report;
use harness::replay::{ReplayError, ReplayOptions as Replay, Tax, in_process};
use harness::wire::{Pace, over_tcp};
use indicatif::{ProgressBar, ProgressStyle};
use lab::{Format, TraceError, TraceReader};
use server::{Clock as _, GroupConfig, MemoryPolicy};
use std::fs::{File, Metadata};
use std::io::{BufRead, BufReader, Cursor, Read, Seek as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use store::{Placement, Promotion, RankKind};
use units::{Bytes, Duration, Instant};

/// What `replay` is told.
#[derive(Debug)]
pub(crate) struct ReplayOptions {
    /// At least one file, replayed in this order.
    pub(crate) traces: Vec<PathBuf>,
    /// Memory of the store.
    pub(crate) memory: Bytes,
    /// What divides it.
    pub(crate) policy: MemoryPolicy,
    /// Floors: of one tenant by its name, or of each.
    pub(crate) reserved: Vec<(Option<String>, Bytes)>,
    /// Groups of tenants.
    pub(crate) groups: Vec<GroupConfig>,
    /// Tenants and the groups that they are in.
    pub(crate) members: Vec<(String, String)>,
    /// Eviction order.
    pub(crate) rank: RankKind,
    /// Bytes that one shadow hit moves.
    pub(crate) credit: Bytes,
    /// The part of idle memory that is taken.
    pub(crate) tax: Tax,
    /// Memory that was not touched for so long is idle.
    pub(crate) idle_time: Duration,
    /// How long `auto` learns.
    pub(crate) learning: Duration,
    /// A tier below DRAM; none if it is zero.
    pub(crate) tier: Bytes,
    /// Where values go if there is one.
    pub(crate) placement: Placement,
    /// Which hits bring values back.
    pub(crate) promotion: Promotion,
    /// `HOST:PORT` of a running server; none means in-process.
    pub(crate) server: Option<String>,
    /// Print one JSON object instead of a table.
    pub(crate) json: bool,
    /// Honour the trace's times to live.
    pub(crate) ttl: bool,
    /// Keep the trace's pace.
    pub(crate) realtime: bool,
    /// The traces' format; none means found by their look.
    pub(crate) format: Option<String>,
    /// Requests at most.
    pub(crate) limit: Option<u64>,
    /// Seed of everything random.
    pub(crate) seed: u64,
}

/// The command that unpacks.
pub(crate) const UNPACK: &str = "unpack";

/// Replays the traces and prints the hit ratios.
pub(crate) fn run(options: ReplayOptions) -> Result<Code, Failure> {
    let clock = SystemClock::new();
    let format = format_of(options.format.as_deref())?;
    if options.ttl && options.server.is_some() && !options.realtime {
        return Err(Failure::wrong_use(
            "times to live against a server pass in real time only",
            "add --realtime, or replay in this process",
        ));
    }
    let mut traces = Traces::open(&options.traces, format)?;
    let bar = progress_bar(&traces, options.json);
    let report = replay(&options, &mut traces, &bar, &clock);
    bar.finish_and_clear();
    let mut report = report.map_err(failure)?;
    report.seconds = clock.now().since(Instant::ZERO).as_secs_f64();
    report.peak_resident = peak_resident();
    if options.json {
        say(report.to_json());
    } else {
        say(report.to_table());
    }
    let known: Vec<String> = report.tenants.into_iter().map(|tenant| tenant.name).collect();
    strangers(&options, &known)
}

/// The format that is named, if one is.
pub(crate) fn format_of(text: Option<&str>) -> Result<Option<Format>, Failure> {
    let format = text.map(str::parse).transpose();
    format.map_err(|e: lab::UnknownFormat| Failure::wrong_use(e.to_string(), "leave --format away"))
}

/// A tenant that an option names and that never came is a slip: what the option says was of no use.
fn strangers(options: &ReplayOptions, known: &[String]) -> Result<Code, Failure> {
    let reserving = options.reserved.iter().filter_map(|(of, _)| Some(("--reserved", of.as_ref()?)));
    let members = options.members.iter().map(|(of, _)| ("--member", of));
    match reserving.chain(members).find(|(_, name)| !known.contains(name)) {
        None => Ok(Code::Done),
        Some((flag, name)) => {
            let what = format!("{flag}: no request was of a tenant '{name}'");
            Err(Failure { code: Code::No, ..Failure::failed(what, one_of(name, known)) })
        }
    }
}

fn replay(
    options: &ReplayOptions,
    traces: &mut Traces,
    bar: &ProgressBar,
    clock: &SystemClock,
) -> Result<Report, ReplayError> {
    let replay = Replay {
        memory: options.memory,
        policy: options.policy.name().to_owned(),
        credit: options.credit,
        tax: options.tax,
        idle_time: options.idle_time,
        learning: options.learning,
        reserved: options.reserved.clone(),
        groups: options.groups.clone(),
        members: options.members.clone(),
        rank: options.rank.clone(),
        tier: options.tier,
        placement: options.placement,
        promotion: options.promotion,
        ttl: options.ttl,
        limit: options.limit,
        seed: options.seed,
        ..Replay::default()
    };
    let Traces { readers, files } = traces;
    let mut readers: Vec<&mut dyn TraceReader> =
        readers.iter_mut().map(|r| &mut **r as &mut dyn TraceReader).collect();
    let mut progress = |requests: u64| {
        bar.set_position(position(files));
        bar.set_message(requests.to_string());
    };
    let Some(server) = &options.server else { return in_process(replay, &mut readers, &mut progress) };
    let mut pace = RealTime(clock);
    let pace: Option<&mut dyn Pace> = if options.realtime { Some(&mut pace) } else { None };
    over_tcp(&replay, server, &mut readers, &mut progress, pace)
}

/// The pace of a trace from the start of the program.
struct RealTime<'c>(&'c SystemClock);

impl Pace for RealTime<'_> {
    fn is_early(&mut self, at: Instant) -> bool {
        Duration::from_millis(1) < at.since(self.0.now())
    }

    fn wait(&mut self, at: Instant) {
        std::thread::sleep(at.since(self.0.now()).to_std());
    }
}

fn failure(error: ReplayError) -> Failure {
    match error {
        ReplayError::Trace(e) => Failure::wrong_use(chain(&e), e.cure()),
        ReplayError::Claims(e) => Failure::wrong_use(e.what, e.cure),
        ReplayError::Tenants => Failure::wrong_use(error.to_string(), "divide the trace by its tenants"),
        ReplayError::Server { .. } => {
            Failure::failed(error.to_string(), "start it with: cotenant serve -D :")
        }
        other => {
            Failure::failed(format!("{:#}", anyhow::Error::from(other)), "lower --memory or the tenants")
        }
    }
}

fn progress_bar(traces: &Traces, hidden: bool) -> ProgressBar {
    if hidden {
        return ProgressBar::hidden();
    }
    let (bar, template) = match traces.total() {
        Some(total) => (ProgressBar::new(total), "{wide_bar} {percent:>3}% {msg} requests, {eta} left"),
        None => (ProgressBar::no_length(), "{msg} requests"),
    };
    let style = ProgressStyle::with_template(template);
    // The templates are constants; were one wrong, the default bar would do.
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}

/// The traces and how far their files have been read.
pub(crate) struct Traces {
    pub(crate) readers: Vec<Box<dyn TraceReader + Send>>,
    files: Vec<File>,
}

impl Traces {
    pub(crate) fn open(paths: &[PathBuf], format: Option<Format>) -> Result<Self, Failure> {
        let opened = paths.iter().map(|path| open(path, format)).collect::<Result<Vec<_>, _>>()?;
        let (readers, files) = opened.into_iter().unzip();
        Ok(Self { readers, files })
    }

    /// Bytes of all files; none where one is a pipe.
    fn total(&self) -> Option<u64> {
        let sizes = self.files.iter().map(|file| file.metadata().ok().filter(Metadata::is_file));
        sizes.map(|found| found.map(|metadata| metadata.len())).sum()
    }
}

/// A clone of a descriptor shares its offset with whoever reads the file.
fn position(files: &[File]) -> u64 {
    files.iter().map(|mut f| f.stream_position().unwrap_or(0)).sum()
}

/// Opens a trace, a file or a pipe. A compressed one is unpacked by a process of its own: the window that its decoder needs
/// (128 MiB) is no part of the cache's memory, and both cores work.
fn open(path: &Path, format: Option<Format>) -> Result<(Box<dyn TraceReader + Send>, File), Failure> {
    let wrong = |e: TraceError| Failure::wrong_use(chain(&e), e.cure());
    let unreadable = |e: std::io::Error| {
        let cure = "check the path; traces are files or pipes, plain or zstd";
        Failure::wrong_use(format!("{}: cannot be read: {e}", path.display()), cure)
    };
    let mut file = File::open(path).map_err(unreadable)?;
    // What a pipe has given it gives to nobody again.
    let head = lab::head(&mut file).map_err(unreadable)?;
    let watched = file.try_clone().map_err(unreadable)?;
    let input: Box<dyn BufRead + Send> = if let Some(magic) = lab::zstd_magic(&head) {
        if file.metadata().is_ok_and(|found| found.is_file()) {
            // Whatever is wrong with its beginning is said by the reader that unpacks in this process.
            lab::open(path, format).map_err(wrong)?;
        }
        Box::new(BufReader::with_capacity(1 << 20, Unpacked::start(file, magic).map_err(unreadable)?))
    } else {
        Box::new(Cursor::new(head).chain(BufReader::new(file)))
    };
    let reader = lab::open_reader(input, &path.display().to_string(), format).map_err(wrong)?;
    Ok((reader, watched))
}

/// An error and its causes in one line.
pub(crate) fn chain(error: &TraceError) -> String {
    use std::error::Error as _;
    error.source().map_or_else(|| error.to_string(), |cause| format!("{error}: {cause}"))
}

/// The output of a process that unpacks; a process that fails ends it with an error instead of an end.
struct Unpacked {
    child: Child,
    output: ChildStdout,
}

impl Unpacked {
    /// Unpacks what follows the magic number, which has been read.
    fn start(file: File, magic: u32) -> std::io::Result<Self> {
        let program = std::env::current_exe()?;
        let mut child = Command::new(program)
            .arg(UNPACK)
            .arg(magic.to_string())
            .stdin(file)
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        let output = child.stdout.take().ok_or_else(|| std::io::Error::other("no pipe"))?;
        Ok(Self { child, output })
    }
}

impl Read for Unpacked {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let len = self.output.read(buffer)?;
        if len == 0 && !buffer.is_empty() && !self.child.wait()?.success() {
            let mut why = String::new();
            if let Some(mut stderr) = self.child.stderr.take() {
                stderr.read_to_string(&mut why)?;
            }
            return Err(std::io::Error::other(why.trim().to_owned()));
        }
        Ok(len)
    }
}

impl Drop for Unpacked {
    fn drop(&mut self) {
        // It may have ended already; either way it is waited for.
        let _gone = self.child.kill();
        let _status = self.child.wait();
    }
}

/// `cotenant unpack MAGIC`: standard input, which lacks that magic number, unpacked to standard output, for `replay` only.
pub(crate) fn unpack(magic: &str) -> Result<Code, Failure> {
    let Ok(magic) = magic.parse::<u32>() else {
        return Err(Failure::wrong_use("there is no magic number", ""));
    };
    let input = Cursor::new(magic.to_le_bytes()).chain(std::io::stdin().lock());
    match lab::unpack(input, &mut std::io::stdout().lock()) {
        Ok(_) => Ok(Code::Done),
        // The reader has what it wanted.
        Err(e) if e.kind() == std::io::ErrorKind::BrokenPipe => Ok(Code::Done),
        Err(e) => Err(Failure::wrong_use(format!("the archive is truncated or damaged ({e})"), "")),
    }
}

/// The most memory that this process ever had resident, as the kernel counts it.
fn peak_resident() -> Option<Bytes> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|l| l.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse().ok()?;
    Some(Bytes::kib(kib))
}
