//! `probe`: a tier's MaxIOPS profile and what its reads and writes leave each other, measured, shown and kept.
//!
//! Shape: tier -> rows -> a table or JSON, a file beside the tier, with a folder also a page with plots

use crate::clock::SystemClock;
use crate::failure::{Code, Failure, say};
use comfy_table::{CellAlignment, Table, presets};
use harness::experiments::profile_page;
use indicatif::{ProgressBar, ProgressStyle};
use media::TierSpec;
use media::probe::{Competition, Probed, ProfileFile, machine_name, probe};
use server::Clock as _;
use std::path::PathBuf;
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
    let open = spec.open().map_err(|e| {
        let cure = e.cure().unwrap_or_default();
        Failure { cure, ..told_in_full(e) }
    })?;
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
    let path = options.profile.clone().unwrap_or_else(|| spec.profile_path());
    let cure = "--profile FILE, in a folder that can be written to";
    file.save(&path).map_err(|e| Failure { cure: cure.to_owned(), ..told_in_full(e) })?;
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

fn page(file: &ProfileFile, folder: &std::path::Path) -> Result<(), Failure> {
    let path = folder.join("index.html");
    std::fs::create_dir_all(folder).and_then(|()| std::fs::write(&path, profile_page(file))).map_err(|e| {
        Failure::failed(
            format!("cannot write {}: {e}", path.display()),
            "--out FOLDER that can be written to",
        )
    })
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
