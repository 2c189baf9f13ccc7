//! `plan`: what a tenant would hit with more memory or less.
//!
//! Shape: a running server's administration, or traces -> plans -> a table or JSON
//! Exit:  1 if what is wanted is out of reach, or nobody has a curve

use crate::failure::{Code, Failure, complain, say};
use crate::replay::{Traces, format_of};
use crate::suggest;
use harness::one_line::one_line;
use harness::plan::{Plan, PlanError, Planned, TracesError, of_traces, path_of};
use lab::TraceReader;
use server::admin::client;
use std::path::PathBuf;
use units::Bytes;

/// What `plan` is told.
#[derive(Debug)]
pub(crate) struct PlanOptions {
    /// Whose curve; with traces none means everybody's.
    pub(crate) tenant: Option<String>,
    /// Traces to plan from; none means the server.
    pub(crate) traces: Vec<PathBuf>,
    /// The traces' format; none means found by their look.
    pub(crate) format: Option<String>,
    /// `HOST:PORT` of the server's administration.
    pub(crate) admin: String,
    /// Changes of memory in percent.
    pub(crate) changes: Vec<i64>,
    /// A hit ratio to reach.
    pub(crate) want: Option<f64>,
    /// What each tenant of a trace holds.
    pub(crate) at: Option<Bytes>,
    /// Print one JSON object per tenant instead of tables.
    pub(crate) json: bool,
}

/// Prints the plans.
pub(crate) fn run(options: &PlanOptions) -> Result<Code, Failure> {
    let Planned { plans, without } = if options.traces.is_empty() {
        Planned { plans: vec![live(options)?], without: Vec::new() }
    } else {
        offline(options)?
    };
    if plans.is_empty() {
        return Err(no_curve(options.tenant.as_deref()));
    }
    for tenant in &without {
        complain(format_args!("note: tenant '{}' has no curve: {NOTHING_TWICE}", one_line(tenant)));
    }
    for (i, plan) in plans.iter().enumerate() {
        if options.json {
            say(plan.to_json(&options.changes, options.want));
        } else {
            let gap = if i == 0 { "" } else { "\n" };
            say(format!("{gap}{}", plan.to_table(&options.changes, options.want)));
        }
    }
    let is_reached = |want| without.is_empty() && plans.iter().all(|plan| plan.size_for(want).is_some());
    let reached = options.want.is_none_or(is_reached);
    Ok(if reached { Code::Done } else { Code::No })
}

/// Why a tenant of a trace has no curve.
const NOTHING_TWICE: &str = "none of its keys is looked up twice";

/// Nobody who is asked about has a curve.
fn no_curve(tenant: Option<&str>) -> Failure {
    let what = match tenant {
        Some(tenant) => format!("tenant '{tenant}' has no curve: {NOTHING_TWICE}"),
        None => "nobody has a curve: no key is looked up twice".to_owned(),
    };
    Failure { code: Code::No, ..Failure::failed(what, "give a trace of a longer time") }
}

fn live(options: &PlanOptions) -> Result<Plan, Failure> {
    let PlanOptions { tenant, admin, .. } = options;
    let Some(tenant) = tenant else {
        let cure = "cotenant plan --tenant default, or --trace FILE for all tenants of a trace";
        return Err(Failure::wrong_use("--tenant: whose memory is it about?", cure));
    };
    let lost = |e: std::io::Error| {
        let what = format!("the administration at {admin} does not answer: {e}");
        Failure::failed(what, "start it with: cotenant serve, or name it with --admin HOST:PORT")
    };
    let (status, text) = client::ask(admin, "GET", &path_of(tenant), None).map_err(lost)?;
    Plan::from_answer(status, &text).map_err(|error| match error {
        PlanError::NoTenant { known } => unknown(tenant, &known),
        PlanError::NoCurve(why) => {
            let cure = "ask again when it has been asked more";
            Failure { code: Code::No, ..Failure::failed(format!("tenant '{tenant}': {why}"), cure) }
        }
        PlanError::Refused { status, what, cure } => {
            let code = if status < 500 { Code::WrongUse } else { Code::Failed };
            let failure = Failure::failed(format!("the administration at {admin} refuses: {what}"), cure);
            Failure { code, ..failure.or_try("name its address: --admin HOST:PORT") }
        }
        error @ PlanError::Malformed(_) => {
            let cure = "is it a cotenant of this version?";
            Failure::failed(format!("the administration at {admin}: {error}"), cure)
        }
    })
}

fn offline(options: &PlanOptions) -> Result<Planned, Failure> {
    let mut traces = Traces::open(&options.traces, format_of(options.format.as_deref())?)?;
    let mut readers: Vec<&mut dyn TraceReader> =
        traces.readers.iter_mut().map(|r| &mut **r as &mut dyn TraceReader).collect();
    let planned = of_traces(&mut readers, options.at).map_err(|error| match error {
        TracesError::Trace(e) => Failure::wrong_use(crate::replay::chain(&e), e.cure()),
        TracesError::Tenants => Failure::wrong_use(error.to_string(), "divide the trace by its tenants"),
    })?;
    let Some(tenant) = &options.tenant else { return Ok(planned) };
    let names = planned.plans.iter().map(|plan| &plan.tenant).chain(&planned.without);
    let known: Vec<String> = names.cloned().collect();
    if !known.contains(tenant) {
        return Err(unknown(tenant, &known));
    }
    Ok(Planned {
        plans: planned.plans.into_iter().filter(|p| p.tenant == *tenant).collect(),
        without: Vec::new(),
    })
}

fn unknown(tenant: &str, known: &[String]) -> Failure {
    Failure::wrong_use(format!("there is no tenant '{tenant}'"), one_of(tenant, known))
}

/// Names that are told of many (guess: a line of a terminal or two).
const NAMES_TOLD: usize = 12;

/// The known name that is meant, or some of them.
pub(crate) fn one_of(name: &str, known: &[String]) -> String {
    if let Some(meant) = suggest::closest(name, known.iter().map(String::as_str)) {
        return format!("did you mean '{meant}'?");
    }
    match known {
        [] => "give a trace that has requests".to_owned(),
        known if known.len() <= NAMES_TOLD => format!("one of: {}", known.join(", ")),
        known => format!("one of {}: {}, …", known.len(), known[..NAMES_TOLD].join(", ")),
    }
}

/// Refuses what would be of no use beside the rest of the command line: `is_given` says whether a flag stands there.
pub(crate) fn check_given(is_given: impl Fn(&str) -> bool) -> Result<(), Failure> {
    let refuse = |what: &str, cure: &str| Err(Failure::wrong_use(what, cure));
    if !is_given("trace") {
        if is_given("at") {
            return refuse(
                "--at: a server knows what its tenants hold",
                "leave --at away, or plan from a --trace FILE",
            );
        }
        if is_given("format") {
            return refuse("--format: there is no trace", "add one: --trace FILE");
        }
    } else if is_given("admin") {
        return refuse("--admin: with traces no server is asked", "leave --admin away, or --trace");
    } else if is_given("change") && !is_given("at") {
        return refuse(
            "--change: nobody says what tenants of the trace hold now",
            "add that: --at SIZE; without both the table has parts of the footprint",
        );
    }
    Ok(())
}

/// Changes as `+20%,-20%`.
pub(crate) fn changes(text: &str) -> Result<Vec<i64>, Failure> {
    let change = |text: &str| {
        let number = text.trim().trim_end_matches('%').parse::<i64>().ok();
        number.filter(|percent| (-100..=10_000).contains(percent)).ok_or_else(|| {
            let what = format!("--change: '{text}' is no change in percent from -100 to 10000");
            Failure::wrong_use(what, "for example --change +20%,-20%")
        })
    };
    text.split(',').map(change).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_signed_percentages() {
        assert_eq!(changes("+20%,-20%"), Ok(vec![20, -20]));
        assert_eq!(changes("100, 0"), Ok(vec![100, 0]));
        for bad in ["", "twenty", "-101%", "+1e9%", "20,,30"] {
            let failure = changes(bad).unwrap_err();
            assert_eq!(failure.code, Code::WrongUse, "{bad}");
        }
    }

    #[test]
    fn what_would_be_of_no_use_is_refused() {
        let refused =
            |given: &[&str]| check_given(|name| given.contains(&name)).err().map(|failure| failure.what);
        for given in [
            &[][..],
            &["change", "want", "admin", "json"],
            &["trace", "format", "want"],
            &["trace", "at", "change"],
        ] {
            assert_eq!(refused(given), None, "{given:?}");
        }
        for (given, flag) in [
            (&["at"][..], "--at"),
            (&["format", "admin"], "--format"),
            (&["trace", "admin"], "--admin"),
            (&["trace", "change"], "--change"),
        ] {
            assert!(refused(given).is_some_and(|what| what.starts_with(flag)), "{given:?}");
        }
    }

    #[test]
    fn an_unknown_tenant_is_wrong_use_with_the_nearest_name() {
        let known = ["default".to_owned(), "feeds".to_owned()];
        assert_eq!(unknown("feds", &known).cure, "did you mean 'feeds'?");
        assert_eq!(unknown("nobody", &known).cure, "one of: default, feeds");
        assert_eq!(unknown("nobody", &[]).cure, "give a trace that has requests");
        let many: Vec<_> = (0..20).map(|n| format!("tenant-{n:03}")).collect();
        assert!(unknown("nobody", &many).cure.starts_with("one of 20: tenant-000, "));
    }
}
