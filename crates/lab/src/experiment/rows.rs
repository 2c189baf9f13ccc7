//! Reads the comma-separated tables of experiments.
//!
//! Shape:   text -> rows of fields, each with its line and column; a field in `"` may hold commas, `""` is a quote
//! Failure: a wrong header, another number of fields, a quote that stays open: one error with its place

use super::error::ExperimentError;

/// One field and where it begins, from 1.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Field {
    pub(super) text: String,
    pub(super) line: usize,
    pub(super) column: usize,
}

/// A table that has been read.
#[derive(Clone, Debug)]
pub(super) struct Rows<'a> {
    file: &'a str,
    rows: Vec<Vec<Field>>,
}

impl<'a> Rows<'a> {
    /// Reads `text`, whose first line must be `header`. Empty lines and lines that begin with `#` are left out.
    pub(super) fn parse(file: &'a str, text: &str, header: &str) -> Result<Self, ExperimentError> {
        let mut lines = (1..).zip(text.lines()).filter(|(_, l)| !l.trim().is_empty() && !l.starts_with('#'));
        match lines.next() {
            Some((_, first)) if first == header => {}
            Some((line, first)) => {
                let at = first.chars().zip(header.chars()).take_while(|(a, b)| a == b).count();
                return Err(fault(file, line, at + 1, format!("the header is not '{header}'")));
            }
            None => return Err(fault(file, 1, 1, format!("the header '{header}' is missing"))),
        }
        let columns: Vec<&str> = header.split(',').collect();
        let rows = lines.map(|(line, text)| {
            let fields = fields(file, line, text)?;
            if let Some(missing) = columns.get(fields.len()) {
                let column = text.chars().count() + 1;
                return Err(fault(file, line, column, format!("the field '{missing}' is missing")));
            }
            match fields.get(columns.len()) {
                Some(more) => {
                    let what =
                        format!("more than {} fields; quote a field that holds a comma", columns.len());
                    Err(fault(file, line, more.column, what))
                }
                None => Ok(fields),
            }
        });
        Ok(Self { file, rows: rows.collect::<Result<_, _>>()? })
    }

    /// The rows below the header, each with as many fields as the header.
    pub(super) fn iter(&self) -> impl Iterator<Item = &[Field]> {
        self.rows.iter().map(Vec::as_slice)
    }

    /// `what` is wrong with `field`.
    pub(super) fn fault(&self, field: &Field, what: impl Into<String>) -> ExperimentError {
        fault(self.file, field.line, field.column, what)
    }

    /// `what` is wrong `inside` characters into `field`.
    pub(super) fn fault_inside(&self, field: &Field, inside: usize, what: String) -> ExperimentError {
        fault(self.file, field.line, field.column + inside, what)
    }

    /// A finite number; `None` if the field is empty.
    pub(super) fn number(&self, field: &Field) -> Result<Option<f64>, ExperimentError> {
        if field.text.is_empty() {
            return Ok(None);
        }
        match field.text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(Some(number)),
            _ => Err(self.fault(field, format!("'{}' is no number", field.text))),
        }
    }
}

fn fault(file: &str, line: usize, column: usize, what: impl Into<String>) -> ExperimentError {
    ExperimentError::Data { file: file.to_owned(), line, column, what: what.into() }
}

fn fields(file: &str, line: usize, text: &str) -> Result<Vec<Field>, ExperimentError> {
    let chars: Vec<char> = text.chars().collect();
    let mut fields = Vec::new();
    let mut at = 0;
    loop {
        let quoted = chars.get(at) == Some(&'"');
        let column = at + 1 + usize::from(quoted);
        let (text, end) = if quoted { in_quotes(&chars, at + 1) } else { plain(&chars, at) };
        match chars.get(end) {
            Some(',') => {}
            None if end == chars.len() => {}
            None => return Err(fault(file, line, column, "the quote is not closed")),
            Some(_) => return Err(fault(file, line, end + 1, "a comma must follow the closing quote")),
        }
        fields.push(Field { text: text.trim().to_owned(), line, column });
        if end == chars.len() {
            return Ok(fields);
        }
        at = end + 1;
    }
}

fn plain(chars: &[char], start: usize) -> (String, usize) {
    let end = chars[start..].iter().position(|&c| c == ',').map_or(chars.len(), |len| start + len);
    (chars[start..end].iter().collect(), end)
}

/// The text up to the closing quote and where the field ends; beyond the line if no quote closes it.
fn in_quotes(chars: &[char], start: usize) -> (String, usize) {
    let mut text = String::new();
    let mut at = start;
    while let Some(&c) = chars.get(at) {
        if c != '"' {
            text.push(c);
            at += 1;
        } else if chars.get(at + 1) == Some(&'"') {
            text.push('"');
            at += 2;
        } else {
            return (text, at + 1);
        }
    }
    (text, chars.len() + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(text: &str, expected: &str) {
        let found = match Rows::parse("t.csv", text, "a,b") {
            Ok(rows) => rows
                .iter()
                .map(|row| {
                    let shown = row.iter().map(|f| format!("{}@{}:{}", f.text, f.line, f.column));
                    shown.collect::<Vec<_>>().join(" ")
                })
                .collect::<Vec<_>>()
                .join(" | "),
            Err(error) => error.to_string(),
        };
        assert_eq!(found, expected, "{text:?}");
    }

    #[test]
    fn fields_know_their_place() {
        check("a,b\n1,2\n# no\n\n3,\n", "1@2:1 2@2:3 | 3@5:1 @5:3");
        check("a,b\n\"x, \"\"y\"\"\",\" z\"\n", "x, \"y\"@2:2 z@2:13");
    }

    #[test]
    fn malformed_tables_say_where() {
        let at = "experiments/t.csv:";
        check("", &format!("{at}1:1: the header 'a,b' is missing"));
        check("a;b\n1,2", &format!("{at}1:2: the header is not 'a,b'"));
        check("a,b\n1,2\n3", &format!("{at}3:2: the field 'b' is missing"));
        check("a,b\n1,2,3", &format!("{at}2:5: more than 2 fields; quote a field that holds a comma"));
        check("a,b\n1,\"2", &format!("{at}2:4: the quote is not closed"));
        check("a,b\n\"1\"x,2", &format!("{at}2:4: a comma must follow the closing quote"));
    }
}
