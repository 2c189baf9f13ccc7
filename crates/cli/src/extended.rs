//! memcached's `-o` options, declared once: those that set something here and those that have no meaning here.

use crate::failure::Failure;
use crate::suggest;
use crate::value::{Dialect, Kind, parse};
use std::fmt;

/// One option of `-o`.
#[derive(Debug)]
pub(crate) struct Extended {
    /// Its name without `no_`.
    pub(crate) name: &'static str,
    /// Which forms it has.
    form: Form,
    /// What is done with it.
    pub(crate) effect: ExtendedEffect,
    /// Its name in `stats settings`; may be empty.
    pub(crate) echo: &'static str,
}

/// The forms of an option.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Form {
    /// `name`.
    Alone,
    /// `name` and `no_name`.
    OnOff,
    /// `name=VALUE`.
    Needs(Kind),
    /// `name`, `no_name` and `name=VALUE`: 1, 0, or another.
    Takes(Kind),
}

/// What giving an option does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum ExtendedEffect {
    /// Sets the setting of this name, a number of seconds.
    Seconds(&'static str),
    /// What these words say.
    Used(&'static str),
    /// Nothing, and the log says so.
    Accepted,
    /// An error with this cure.
    Unavailable(&'static str),
}

impl fmt::Display for ExtendedEffect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Seconds(setting) => write!(f, "sets {setting}, in seconds"),
            Self::Used(what) => f.write_str(what),
            Self::Accepted => f.write_str("accepted without meaning"),
            Self::Unavailable(instead) => write!(f, "not available in this version: {instead}"),
        }
    }
}

/// One option that was given.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Chosen {
    /// Its row.
    pub(crate) row: &'static Extended,
    /// Its value, `yes` and `no` for switches.
    pub(crate) value: String,
}

impl PartialEq for Extended {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

const fn option(name: &'static str, form: Form) -> Extended {
    Extended { name, form, effect: ExtendedEffect::Accepted, echo: name }
}

impl Extended {
    const fn effect(self, effect: ExtendedEffect) -> Self {
        Self { effect, ..self }
    }

    const fn echo(self, echo: &'static str) -> Self {
        Self { echo, ..self }
    }

    /// Whether it says how TLS is spoken.
    pub(crate) fn is_of_tls(&self) -> bool {
        self.effect == TLS
    }

    fn has_negation(&self) -> bool {
        matches!(self.form, Form::OnOff | Form::Takes(_))
    }

    /// Whether each that is given counts, and not the last alone.
    pub(crate) fn adds_up(&self) -> bool {
        self.name == EXT_PATH
    }

    /// The forms as an operator writes them.
    pub(crate) fn usage(&self) -> String {
        match self.form {
            Form::Alone => self.name.to_owned(),
            Form::OnOff => format!("[no_]{}", self.name),
            Form::Needs(kind) => format!("{}={}", self.name, kind.placeholder()),
            Form::Takes(kind) => format!("[no_]{}[={}]", self.name, kind.placeholder()),
        }
    }
}

/// A file tier; several may be given.
pub(crate) const EXT_PATH: &str = "ext_path";
const TLS: ExtendedEffect = ExtendedEffect::Used("how TLS is spoken (-Z)");
const COUNT: Form = Form::Needs(Kind::Count);
const RATIO: Form = Form::Needs(Kind::Ratio);
const TEXT: Form = Form::Needs(Kind::Text);

/// Versions of TLS by memcached's numbers and names; those before 1.2 are not spoken.
pub(crate) const TLS_VERSIONS: &[&str] = &["0", "1", "2", "3", "tlsv1.0", "tlsv1.1", "tlsv1.2", "tlsv1.3"];

/// Every option of `-o`.
pub(crate) const EXTENDED: &[Extended] = &[
    option("idle_timeout", COUNT).effect(ExtendedEffect::Seconds("idle_timeout")),
    option("maxconns_fast", Form::OnOff),
    option("hashpower", COUNT).echo("hashpower_init"),
    option("hashexpand", Form::OnOff).echo(""),
    option("hash_algorithm", Form::Needs(Kind::Choice(&["jenkins", "murmur3", "xxh3"]))),
    option("tail_repair_time", COUNT),
    option("lru_crawler", Form::OnOff)
        .effect(ExtendedEffect::Used("whether items can be listed before anybody says `lru_crawler enable`")),
    option("lru_crawler_sleep", COUNT),
    option("lru_crawler_tocrawl", COUNT),
    option("lru_maintainer", Form::OnOff).echo("lru_maintainer_thread"),
    option("read_buf_mem_limit", COUNT),
    option("resp_obj_mem_limit", COUNT).echo(""),
    option("hot_lru_pct", COUNT),
    option("warm_lru_pct", COUNT),
    option("hot_max_factor", RATIO),
    option("warm_max_factor", RATIO),
    option("temporary_ttl", COUNT),
    option("slab_reassign", Form::OnOff),
    option("slab_automove", Form::Takes(Kind::Count)),
    option("slab_automove_ratio", RATIO),
    option("slab_automove_window", COUNT),
    option("slab_automove_freeratio", RATIO),
    option("slab_chunk_max", COUNT),
    option("slab_sizes", TEXT).echo(""),
    option("no_chunked_items", Form::Alone).echo(""),
    option("watcher_logbuf_size", COUNT),
    option("worker_logbuf_size", COUNT),
    option("track_sizes", Form::Alone),
    option("modern", Form::OnOff).echo(""),
    option("drop_privileges", Form::OnOff),
    option("inline_ascii_resp", Form::OnOff).echo(""),
    option("sock_cookie_id", COUNT).echo(""),
    option(EXT_PATH, TEXT)
        .effect(ExtendedEffect::Used("a file tier, PATH:SIZE, beside those of --tier"))
        .echo(""),
    option("ext_page_size", COUNT).echo(""),
    option("ext_page_count", COUNT).echo(""),
    option("ext_wbuf_size", COUNT),
    option("ext_threads", COUNT).echo(""),
    option("ext_io_depth", COUNT).echo(""),
    option("ext_item_size", COUNT),
    option("ext_item_age", COUNT),
    option("ext_low_ttl", COUNT),
    option("ext_drop_unread", Form::Alone),
    option("ext_recache_rate", COUNT),
    option("ext_compact_under", COUNT),
    option("ext_drop_under", COUNT),
    option("ext_max_frag", RATIO),
    option("ext_max_sleep", COUNT),
    option("ssl_chain_cert", TEXT).effect(TLS).echo(""),
    option("ssl_key", TEXT).effect(TLS).echo(""),
    option("ssl_verify_mode", Form::Needs(Kind::Choice(&["0", "1", "2", "3"]))).effect(TLS).echo(""),
    option("ssl_keyformat", COUNT),
    option("ssl_ciphers", TEXT).effect(TLS).echo(""),
    option("ssl_ca_cert", TEXT).effect(TLS).echo(""),
    option("ssl_wbuf_size", COUNT),
    option("ssl_session_cache", Form::Alone).effect(TLS).echo(""),
    option("ssl_kernel_tls", Form::Alone),
    option("ssl_min_version", Form::Needs(Kind::Choice(TLS_VERSIONS))).effect(TLS).echo(""),
    option("proxy_config", TEXT)
        .effect(ExtendedEffect::Unavailable("run a proxy in front, for example mcrouter")),
];

/// The option that `text` gives.
pub(crate) fn chosen(text: &str) -> Result<Chosen, Failure> {
    let (name, value) = text.split_once('=').map_or((text, None), |(n, v)| (n.trim(), Some(v.trim())));
    let find = |name: &str| EXTENDED.iter().find(|row| row.name == name);
    let negated = name.strip_prefix("no_").and_then(find).filter(|row| row.has_negation());
    let Some(row) = negated.or_else(|| find(name)) else {
        return Err(Failure::wrong_use(
            format!("unknown extended option '{name}'"),
            suggest::cure(name, EXTENDED.iter().map(|row| row.name), "cotenant serve --help"),
        ));
    };
    if let ExtendedEffect::Unavailable(instead) = row.effect {
        return Err(Failure::wrong_use(format!("-o {name} is not available in this version"), instead));
    }
    let kind = match (row.form, value) {
        (Form::Alone | Form::OnOff, None) => {
            let value = if negated.is_some() { "no" } else { "yes" };
            return Ok(Chosen { row, value: value.to_owned() });
        }
        (Form::Takes(_), None) => {
            let value = if negated.is_some() { "0" } else { "1" };
            return Ok(Chosen { row, value: value.to_owned() });
        }
        _ if negated.is_some() => "takes no value",
        (Form::Needs(kind) | Form::Takes(kind), Some(value)) if !value.is_empty() => {
            let fail = |e: Failure| e.at(format!("-o {name}")).or_try(format!("write -o {}", row.usage()));
            parse(kind, value, Dialect::Strict).map_err(fail)?;
            return Ok(Chosen { row, value: value.to_owned() });
        }
        (Form::Alone | Form::OnOff, Some(_)) => "takes no value",
        (Form::Needs(_) | Form::Takes(_), _) => "needs a value",
    };
    Err(Failure::wrong_use(format!("-o {name} {kind}"), format!("write -o {}", row.usage())))
}

impl Chosen {
    /// The option as `-o` takes it.
    pub(crate) fn text(&self) -> String {
        match (self.row.form, self.value.as_str()) {
            (Form::Alone, _) | (Form::OnOff, "yes") => self.row.name.to_owned(),
            (Form::OnOff, _) => format!("no_{}", self.row.name),
            (Form::Needs(_) | Form::Takes(_), value) => format!("{}={value}", self.row.name),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings;

    #[test]
    fn options_have_their_forms() {
        for (text, wanted) in [
            ("maxconns_fast", Ok("maxconns_fast")),
            ("no_maxconns_fast", Ok("no_maxconns_fast")),
            ("no_hashexpand", Ok("no_hashexpand")),
            ("no_modern", Ok("no_modern")),
            ("slab_automove", Ok("slab_automove=1")),
            ("slab_automove=2", Ok("slab_automove=2")),
            ("no_slab_automove", Ok("slab_automove=0")),
            ("no_slab_automove=2", Err("takes no value")),
            ("slab_sizes=100-200-300", Ok("slab_sizes=100-200-300")),
            ("no_chunked_items", Ok("no_chunked_items")),
            ("hash_algorithm=murmur3", Ok("hash_algorithm=murmur3")),
            ("hash_algorithm=md5", Err("not one of")),
            ("hashpower", Err("needs a value")),
            ("hashpower=x", Err("-o hashpower: 'x' is not a whole number")),
            ("track_sizes=1", Err("takes no value")),
            ("no_track_sizes", Err("unknown extended option 'no_track_sizes'")),
            ("proxy_config=routes.lua", Err("not available in this version")),
        ] {
            let got = chosen(text).map(|c| c.text()).map_err(|f| f.what);
            match wanted {
                Ok(same) => assert_eq!(got.as_deref(), Ok(same), "{text}"),
                Err(part) => assert!(got.as_ref().is_err_and(|e| e.contains(part)), "{text}: {got:?}"),
            }
        }
    }

    #[test]
    fn names_are_unique_and_targets_exist() {
        for (i, row) in EXTENDED.iter().enumerate() {
            assert!(EXTENDED[..i].iter().all(|other| other.name != row.name), "{}", row.name);
            assert!(!row.usage().is_empty());
            if let ExtendedEffect::Seconds(target) = row.effect {
                assert_eq!(settings::row(target).kind, Kind::Time, "{}", row.name);
            }
        }
    }
}
