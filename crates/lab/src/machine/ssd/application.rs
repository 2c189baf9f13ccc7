//! A mapped application of the model: how large its data are, what an operation touches and how well pages compress.
//!
//! Shape:  dataset (records of several pages, popularity by Zipf's law) and mix of operations -> rates per page and
//!         operation, by class of popularity
//! Units:  pages of 4 KiB, microseconds
//! Source: PolyEMT §5 (Redis under YCSB: 1 million records, a dataset of 38 GB, 26 GB DRAM, a tier of 6 GB); YCSB's
//!         core workloads (mixes, skew .99, scans of 1 to 100 records, ten fields per record, one field per update)
//! Non-goals: think time and several clients: one client waits for each operation, as YCSB does unless told otherwise
//!
//! 38 GB over 1 million records are ten pages per record, one per field. A record of 1 KB has no need of them; the model
//! takes the paper's two numbers as they are: a read touches the ten pages of a record, an update writes and persists one.

use units::Bytes;

/// A page.
pub const PAGE: Bytes = Bytes::kib(4);
/// Time of an operation of which every page is in memory: PolyEMT Fig. 13a ends at 11,500 operations per second (fitted).
const CPU_US: f64 = 87.0;
/// Time per record of a scan beyond the first. A guess (1 to 5).
const SCAN_RECORD_US: f64 = 2.0;
/// Records per scan: YCSB draws 1 to 100.
const SCAN_RECORDS: f64 = 50.5;
/// Classes of popularity grow by this factor in rank: finer changes miss ratios by less than .001.
const CLASS_GROWTH: f64 = 1.1;

/// What operations do, as parts of all operations.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub struct Mix {
    /// Read one record.
    pub reads: f64,
    /// Write and persist one page of a record.
    pub updates: f64,
    /// Read one record, then update it.
    pub read_modify_writes: f64,
    /// Write and persist all pages of a new record.
    pub inserts: f64,
    /// Read several records in a row.
    pub scans: f64,
}

/// The data of an application.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Dataset {
    /// Records.
    pub records: u64,
    /// Pages per record.
    pub pages_per_record: u32,
    /// Skew of Zipf's law over records.
    pub skew: f64,
    /// Mean sectors of 512 B that a compressed page takes, of 8.
    pub sectors: f64,
}

/// An application.
#[derive(Clone, Debug, PartialEq)]
pub struct Application {
    /// Its data.
    pub dataset: Dataset,
    /// What its operations do.
    pub mix: Mix,
    /// Memory that it has beside the tier.
    pub dram: Bytes,
    classes: Vec<Class>,
}

/// Records of about the same popularity.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Class {
    records: f64,
    /// Part of all references that one record of the class gets.
    popularity: f64,
}

/// How often one page of a class is touched and written, per operation.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct PageRate {
    /// Pages of the class.
    pub pages: f64,
    /// Chance that a read refers to the page's record, summed over the class.
    pub reference: f64,
    /// Touches per operation and page.
    pub touched: f64,
    /// Writes per operation and page.
    pub written: f64,
}

/// Why an application cannot be one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ApplicationError {
    /// Parts are finite, not negative and sum to 1.
    #[error("the parts of a mix must sum to 1")]
    Mix,
    /// A dataset has records, pages and a finite skew in 0..=3, and a page compresses to 1..=8 sectors.
    #[error("a dataset needs records, pages, a skew in 0..=3 and 1..=8 sectors per page")]
    Dataset,
}

impl Mix {
    fn is_whole(self) -> bool {
        let parts = [self.reads, self.updates, self.read_modify_writes, self.inserts, self.scans];
        let sum: f64 = parts.iter().sum();
        parts.iter().all(|part| 0.0 <= *part) && (sum - 1.0).abs() < 1e-9
    }

    /// One of YCSB's core workloads, `A` to `F`; `L` is its loading phase. None for another letter.
    #[must_use]
    pub fn ycsb(letter: char) -> Option<Self> {
        let none = Self::default();
        Some(match letter {
            'A' => Self { reads: 0.5, updates: 0.5, ..none },
            'B' => Self { reads: 0.95, updates: 0.05, ..none },
            'C' => Self { reads: 1.0, ..none },
            // "Latest" is Zipf's law over recency, which is what it is over ranks for a cache.
            'D' => Self { reads: 0.95, inserts: 0.05, ..none },
            'E' => Self { scans: 0.95, inserts: 0.05, ..none },
            'F' => Self { reads: 0.5, read_modify_writes: 0.5, ..none },
            'L' => Self { inserts: 1.0, ..none },
            _ => return None,
        })
    }
}

impl Dataset {
    /// The dataset of PolyEMT §5: 38 GB in 1 million records. Pages compress by 2 to 7 (Fig. 4b), taken as uniform:
    /// rounded up to sectors of 512 B (§4) they take 4 sectors with .133, 3 with .267, 2 with .6.
    pub const YCSB: Self = Self { records: 1_000_000, pages_per_record: 10, skew: 0.99, sectors: 2.533 };
}

impl Application {
    /// An application.
    ///
    /// # Errors
    /// Parts that do not sum to 1, or a dataset that is none.
    pub fn new(dataset: Dataset, mix: Mix, dram: Bytes) -> Result<Self, ApplicationError> {
        let Dataset { records, pages_per_record, skew, sectors } = dataset;
        let is_data = 0 < records && 0 < pages_per_record && (0.0..=3.0).contains(&skew);
        if !is_data || !(1.0..=8.0).contains(&sectors) {
            return Err(ApplicationError::Dataset);
        }
        if !mix.is_whole() {
            return Err(ApplicationError::Mix);
        }
        Ok(Self { dataset, mix, dram, classes: classes(records, skew) })
    }

    /// A core workload of YCSB on the paper's server (26 GB DRAM).
    ///
    /// # Panics
    /// If `letter` is none of `A` to `F` and `L`.
    #[must_use]
    pub fn ycsb(letter: char) -> Self {
        let mix = Mix::ycsb(letter).expect("a letter of A to F or L");
        Self::new(Dataset::YCSB, mix, Bytes(26 << 30)).expect("the paper's dataset is one")
    }

    /// The same application with another mix.
    ///
    /// # Errors
    /// Parts that do not sum to 1.
    pub fn with_mix(&self, mix: Mix) -> Result<Self, ApplicationError> {
        if mix.is_whole() { Ok(Self { mix, ..self.clone() }) } else { Err(ApplicationError::Mix) }
    }

    /// How many uncompressed bytes a compressed byte holds.
    #[must_use]
    pub fn compression(&self) -> f64 {
        8.0 / self.dataset.sectors
    }

    /// Pages of a record.
    pub(super) fn pages_per_record(&self) -> f64 {
        f64::from(self.dataset.pages_per_record)
    }

    /// New pages per operation.
    pub(super) fn new_pages(&self) -> f64 {
        self.mix.inserts * self.pages_per_record()
    }

    /// Time of a read, an update, an insert; twice that is a read-modify-write.
    pub(super) fn cpu_us() -> f64 {
        CPU_US
    }

    /// Time of a scan.
    pub(super) fn scan_cpu_us() -> f64 {
        CPU_US + (SCAN_RECORDS - 1.0) * SCAN_RECORD_US
    }

    /// Records per scan.
    pub(super) fn scan_records() -> f64 {
        SCAN_RECORDS
    }

    /// The rates of pages, class by class. A scan starts by popularity; the records behind its first are anybody's, since
    /// keys are hashed.
    pub(super) fn page_rates(&self) -> impl Iterator<Item = PageRate> {
        let mix = self.mix;
        let pages = self.pages_per_record();
        let records = self.dataset.records as f64;
        let scanned = mix.scans * (SCAN_RECORDS - 1.0) / records;
        self.classes.iter().map(move |class| {
            let written = (mix.updates + mix.read_modify_writes) * class.popularity / pages;
            let read = (mix.reads + mix.read_modify_writes + mix.scans) * class.popularity;
            PageRate {
                pages: class.records * pages,
                reference: class.records * class.popularity,
                touched: read + scanned + written,
                written,
            }
        })
    }
}

/// Zipf's law in classes of ranks; the sums over wide classes are integrals, off by less than .001.
fn classes(records: u64, skew: f64) -> Vec<Class> {
    let mut classes = Vec::new();
    let mut first = 1_u64;
    while first <= records {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "ranks below 2^53")]
        let next = ((first as f64 * CLASS_GROWTH) as u64).max(first + 1).min(records + 1);
        let sum = if next - first < 64 {
            (first..next).map(|rank| (rank as f64).powf(-skew)).sum()
        } else {
            power_integral(first as f64 - 0.5, next as f64 - 0.5, skew)
        };
        let records = (next - first) as f64;
        classes.push(Class { records, popularity: sum / records });
        first = next;
    }
    let total: f64 = classes.iter().map(|c| c.records * c.popularity).sum();
    for class in &mut classes {
        class.popularity /= total;
    }
    classes
}

fn power_integral(from: f64, to: f64, skew: f64) -> f64 {
    let power = 1.0 - skew;
    if power.abs() < 1e-9 { (to / from).ln() } else { (to.powf(power) - from.powf(power)) / power }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classes_sum_to_zipfs_law() {
        let app = Application::ycsb('C');
        let (mut pages, mut reference) = (0.0, 0.0);
        for rate in app.page_rates() {
            pages += rate.pages;
            reference += rate.reference;
        }
        assert!((pages - 1e7).abs() < 1.0, "{pages}");
        assert!((reference - 1.0).abs() < 1e-9, "{reference}");
        let exact: f64 = (1..=1_000_000).map(|rank| f64::from(rank).powf(-0.99)).sum();
        let first = app.page_rates().next().unwrap();
        assert!((first.reference * exact - 1.0).abs() < 1e-3, "{}", first.reference * exact);
    }

    #[test]
    fn what_is_no_application_is_refused() {
        let dram = Bytes::mib(1);
        let reads = |reads| Mix { reads, ..Mix::default() };
        for bad in [0.0, 0.5, 1.5, f64::NAN, -1.0] {
            assert_eq!(Application::new(Dataset::YCSB, reads(bad), dram), Err(ApplicationError::Mix));
        }
        for bad in [
            Dataset { records: 0, ..Dataset::YCSB },
            Dataset { pages_per_record: 0, ..Dataset::YCSB },
            Dataset { skew: f64::NAN, ..Dataset::YCSB },
            Dataset { sectors: 9.0, ..Dataset::YCSB },
        ] {
            assert_eq!(Application::new(bad, reads(1.0), dram), Err(ApplicationError::Dataset));
        }
    }
}
