//! `probe`: a tier's MaxIOPS profile and what its reads and writes leave each other, measured, shown and kept.
//!
//! Shape: tier -> rows -> a table or JSON, a file beside the tier, with a folder also a page with plots

use crate::clock::SystemClock;
use crate::failure::{Code, Failure, say};
use comfy_table::{CellAlignment, Table, presets};
use harness::experiments::profile_page;
use indicatif::{ProgressBar, ProgressStyle};
use media::probe::{Competition, Probed, ProfileFile, ProfileFileError, machine_name, probe};
use media::{NewFile, TierSpec};
use server::Clock as _;
use std::io;
use std::path::{Path, PathBuf};
use units::Duration;

/// What `probe` is told.
#[derive(Debug)]
pub(crate) struct ProbeOptions {
    /// The tier.
    pub(crate) tier: TierSpec,
    /// Where the profile is kept; beside the tier without.
    pub(crate) profile: Option<PathBuf>,
    /// Where the page goes; none is written without.
    pub(crate) out: Option<PathBuf>,
    /// How long it may take.
    pub(crate) time: Duration,
    /// Print the profile as JSON instead of a table.
    pub(crate) json: bool,
}

/// Longest time that a probe is given.
pub(crate) const TIME_MAX: Duration = Duration::from_secs(55);

/// Probes the tier.
pub(crate) fn run(options: &ProbeOptions) -> Result<Code, Failure> {
    let (clock, spec) = (SystemClock::new(), &options.tier);
    // What is measured for a minute has a place before.
    options.profile.as_deref().map_or(Ok(()), can_be_kept)?;
    options.out.as_deref().map_or(Ok(()), make_folder)?;
    let open = spec.open().map_err(|e| {
        let cure = e.cure().unwrap_or_default();
        Failure { cure, ..told_in_full(e) }
    })?;
    let path = options.profile.clone().unwrap_or_else(|| spec.profile_path());
    can_be_kept(&path)?;
    let bar = progress_bar(options.json);
    let told = |done: usize, of: usize| {
        bar.set_length(of as u64);
        bar.set_position(done as u64);
    };
    let probed = probe(spec, &*open.device, options.time, &told);
    bar.finish_and_clear();
    let Probed { rows, competition } = probed
        .map_err(|e| told_in_full(e).at(spec).or_try("cotenant doctor shows what this machine offers"))?;
    let file = ProfileFile {
        spec: spec.to_string(),
        identity: open.identity,
        machine: machine_name(),
        taken_unix_secs: clock.unix_secs(),
        rows,
        competition: Some(competition),
    };
    file.save(&path).map_err(|e| {
        let cure = match &e {
            ProfileFileError::Unfit { .. } => "give it longer: --time 40s",
            _ => KEPT,
        };
        Failure { cure: cure.to_owned(), ..told_in_full(e) }
    })?;
    if options.json {
        say(file.to_text().trim_end());
    } else {
        say(table(&file));
        file.competition.iter().for_each(|found| say(together(found)));
        say(format!("kept in {}", path.display()));
    }
    if let Some(folder) = &options.out {
        page(&file, folder)?;
    }
    Ok(Code::Done)
}

fn told_in_full(error: impl std::error::Error + Send + Sync + 'static) -> Failure {
    Failure::from(anyhow::Error::new(error))
}

/// Where a profile can be kept.
const KEPT: &str = "--profile FILE, in a folder that can be written to";

/// Whether a profile can be kept at a path; nothing is changed there.
fn can_be_kept(path: &Path) -> Result<(), Failure> {
    let tried = if path.is_dir() { Err(io::ErrorKind::IsADirectory.into()) } else { NewFile::create(path) };
    tried
        .map(drop)
        .map_err(|e| Failure::failed(format!("cannot write the profile {}: {e}", path.display()), KEPT))
}

fn make_folder(folder: &Path) -> Result<(), Failure> {
    std::fs::create_dir_all(folder).map_err(|e| unwritable(folder, &e))
}

fn page(file: &ProfileFile, folder: &Path) -> Result<(), Failure> {
    let path = folder.join("index.html");
    std::fs::write(&path, profile_page(file)).map_err(|e| unwritable(&path, &e))
}

fn unwritable(path: &Path, error: &io::Error) -> Failure {
    Failure::failed(
        format!("cannot write {}: {error}", path.display()),
        "--out FOLDER that can be written to",
    )
}

fn table(file: &ProfileFile) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_BORDERS_ONLY_CONDENSED);
    table.set_header([
        "bytes",
        "reads/s",
        "writes/s",
        "read GB/s",
        "write GB/s",
        "read cost ps",
        "write cost ps",
    ]);
    for row in &file.rows {
        let gbps = |iops: f64| format!("{:.3}", iops * row.size.0 as f64 / 1e9);
        let cost = |iops: f64| format!("{:.0}", 1e12 / iops);
        let rate = |iops: f64| format!("{iops:.0}");
        table.add_row([
            row.size.0.to_string(),
            rate(row.read_iops),
            rate(row.write_iops),
            gbps(row.read_iops),
            gbps(row.write_iops),
            cost(row.read_iops),
            cost(row.write_iops),
        ]);
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

/// What reads and writes keep of what is wanted, for every pair of rates.
fn together(found: &Competition) -> Table {
    let mut table = Table::new();
    table.load_style(presets::ASCII_BORDERS_ONLY_CONDENSED);
    let gbps = |rate: &f64| format!("{:.3}", rate / 1e9);
    let corner = format!("kept of reads, writes of {}", found.size);
    let wanted = found.writes.iter().map(|rate| format!("writes {} GB/s", gbps(rate)));
    table.set_header(std::iter::once(corner).chain(wanted));
    for (read, rate) in found.reads.iter().enumerate() {
        let cell = |write: usize| {
            let part = |part: Option<f64>| part.map_or("-".to_owned(), |part| format!("{part:.2}"));
            found.kept(read, write).map(part).join(", ")
        };
        let cells = (0..found.writes.len()).map(cell);
        table.add_row(std::iter::once(format!("reads {} GB/s", gbps(rate))).chain(cells));
    }
    for column in table.column_iter_mut() {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}

fn progress_bar(json: bool) -> ProgressBar {
    if json {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} points, {elapsed}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
