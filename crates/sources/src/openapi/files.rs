//! Reads the files of a document: from the folder of its root, or from their addresses.
//!
//! Invariant: a local file is read only beneath the folder of the root document, even if a
//! reference or link points elsewhere. Only files named as JSON or YAML are read, except hidden
//! ones, because the folder may contain files that are no part of the document.
//!
//! Invariant: an address is requested only if it is on the origin of the root document, or its host
//! is in `allow`.

use std::{
    fs::{self, File},
    io::{self, Read as _},
    path::{Component, Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use futures_util::StreamExt as _;
use http::{HeaderValue, Method, StatusCode, header};
use toolcrib_core::{call::UpstreamError, egress::EgressTrail, text::io_reason};
use url::Url;

use super::{
    document::{Document, DocumentBuilder, FileId},
    parse::MAX_DOCUMENT,
    server::OwnHeaders,
};
use crate::{
    egress::{Egress, EgressError, MAX_HOPS, OutgoingRequest},
    error::{protocol, unavailable},
    text::tidy,
};

/// Names of the root document in a folder; the first that exists is read.
const ROOTS: [&str; 3] = ["openapi.yaml", "openapi.yml", "openapi.json"];
/// Extensions of the files that a document may refer to.
const EXTENSIONS: [&str; 3] = ["yaml", "yml", "json"];
/// Concurrent requests for files: as many as browsers send to one host. Small servers refuse
/// connections beyond a few.
const CONCURRENT: usize = 6;
/// The pauses before a file is requested again after its connection was refused or broke.
const PAUSES: [Duration; 2] = [Duration::from_millis(200), Duration::from_secs(1)];

/// Most repeated requests for the files of one document. A server that is down fails the rest at
/// once.
const MAX_REPEATS: usize = 100;

/// The location of the root document.
pub(super) enum DocumentLocation {
    /// A file, or a folder that contains one of [`ROOTS`].
    Path(PathBuf),
    Url(Url),
}

/// Reads a document with all its files.
pub(super) struct DocumentReader {
    pub(super) location: DocumentLocation,
    pub(super) egress: Egress,
    pub(super) headers: Arc<OwnHeaders>,
}

pub(super) struct LoadedDocument {
    pub(super) document: Document,
    /// Why a file of the document's own server could not be fetched now. A first read leaves out
    /// whatever refers to it; a later read keeps the last state.
    pub(super) interrupted: Option<UpstreamError>,
}

/// The root document, before it is parsed.
struct Root {
    url: Url,
    bytes: Vec<u8>,
    /// The folder of its files, unless it is at an address.
    folder: Option<Folder>,
}

/// The folder of a local document, without links in its path.
#[derive(Clone)]
struct Folder(PathBuf);

/// The reason for the operator, and the error if the file may be readable later.
type FetchProblem = (String, Option<UpstreamError>);

/// Why a file was not fetched.
#[derive(Debug, thiserror::Error)]
enum FetchError {
    #[error("HTTP {}", .0.as_u16())]
    Status(StatusCode),
    #[error("{0}")]
    Egress(#[from] EgressError),
}

// === impl DocumentLocation ===

impl DocumentLocation {
    pub(super) fn url(&self) -> Option<&Url> {
        match self {
            Self::Url(url) => Some(url),
            Self::Path(_) => None,
        }
    }
}

// === impl DocumentReader ===

impl DocumentReader {
    /// Reads the root document, and then the files that references lead to. A file that cannot be
    /// read is not a failure: the document contains the reason.
    pub(super) async fn load(&self) -> Result<LoadedDocument, UpstreamError> {
        let Root { url, bytes, folder } = self.root().await?;
        let mut left = MAX_DOCUMENT.saturating_sub(bytes.len());
        let builder = blocking(move || DocumentBuilder::new(url, &bytes)).await?;
        let mut builder = builder.map_err(|error| protocol(error.to_string()))?;
        let mut interrupted = None;
        let repeats = AtomicUsize::new(MAX_REPEATS);
        loop {
            let requests = builder.requests();
            if requests.is_empty() {
                return Ok(LoadedDocument { document: builder.finish(), interrupted });
            }
            let (local, remote): (Vec<_>, Vec<_>) =
                requests.into_iter().partition(|(_, url)| url.scheme() == "file");
            let mut contents = Vec::with_capacity(remote.len());
            for (id, content) in self.fetch_all(remote, &mut left, &repeats).await {
                contents.push((
                    id,
                    content.map_err(|(reason, failure)| {
                        interrupted = interrupted.take().or(failure);
                        reason
                    }),
                ));
            }
            let folder = folder.clone();
            (builder, left) = blocking(move || {
                for (id, content) in contents {
                    builder.add(id, content);
                }
                for (id, url) in local {
                    builder.add(id, read_local(folder.as_ref(), &url, &mut left));
                }
                (builder, left)
            })
            .await?;
        }
    }

    async fn root(&self) -> Result<Root, UpstreamError> {
        match &self.location {
            DocumentLocation::Path(path) => {
                let path = path.clone();
                blocking(move || Folder::root(&path)).await?
            }
            DocumentLocation::Url(url) => {
                let bytes = self.fetch(url, MAX_DOCUMENT).await.map_err(|error| match error {
                    FetchError::Status(_) => unavailable(format!(
                        "the request for the OpenAPI document returned {error}"
                    )),
                    FetchError::Egress(error) => error.into(),
                })?;
                Ok(Root { url: url.clone(), bytes, folder: None })
            }
        }
    }

    /// Requests files of at most `left` bytes in total. A file that cannot be read has a reason for
    /// the operator, and an error if it may be readable later.
    async fn fetch_all(
        &self,
        requests: Vec<(FileId, Url)>,
        left: &mut usize,
        repeats: &AtomicUsize,
    ) -> Vec<(FileId, Result<Vec<u8>, FetchProblem>)> {
        let shared = AtomicUsize::new(*left);
        let reads: Vec<_> = requests
            .iter()
            .map(|(id, url)| async {
                let read = self.remote(url, shared.load(Ordering::Relaxed), repeats).await;
                let read = read.and_then(|bytes| {
                    take(&shared, bytes.len()).map(|()| bytes).ok_or_else(|| (too_large(), None))
                });
                (*id, read)
            })
            .collect();
        let read = futures_util::stream::iter(reads).buffered(CONCURRENT).collect().await;
        *left = shared.into_inner();
        read
    }

    async fn remote(
        &self,
        url: &Url,
        max: usize,
        repeats: &AtomicUsize,
    ) -> Result<Vec<u8>, FetchProblem> {
        let is_own = self.location.url().is_some_and(|root| root.origin() == url.origin());
        if !is_own && !self.egress.lists(url) {
            let problem =
                "its host is not in the source's `allow`; add it there if this is intended";
            return Err((problem.to_owned(), None));
        }
        let fetched = match is_own {
            true => self.fetch_own(url, max, repeats).await,
            false => self.fetch(url, max).await,
        };
        fetched.map_err(|error| {
            let reason = match &error {
                FetchError::Egress(EgressError::TooLarge(_)) => too_large(),
                error => error.to_string(),
            };
            let failure = format!("{} of the document: {reason}", tidy(url.path(), 160));
            let failure = (is_own && error.is_passing()).then(|| unavailable(failure));
            (reason, failure)
        })
    }

    /// Requests a file of the document's own server, again if its connection is refused or breaks.
    async fn fetch_own(
        &self,
        url: &Url,
        max: usize,
        repeats: &AtomicUsize,
    ) -> Result<Vec<u8>, FetchError> {
        for pause in PAUSES {
            match self.fetch(url, max).await {
                Err(FetchError::Egress(EgressError::Connect(_) | EgressError::Broken(_)))
                    if take(repeats, 1).is_some() =>
                {
                    tokio::time::sleep(pause).await;
                }
                fetched => return fetched,
            }
        }
        self.fetch(url, max).await
    }

    async fn fetch(&self, url: &Url, max: usize) -> Result<Vec<u8>, FetchError> {
        let mut request = OutgoingRequest::new(Method::GET, url.clone());
        request.hops = MAX_HOPS;
        let accept = HeaderValue::from_static("application/json, application/yaml, */*;q=0.8");
        request.headers.insert(header::ACCEPT, accept);
        self.headers.authorize(&mut request);
        let answer = self.egress.send(request, &EgressTrail::default()).await?;
        match answer.status() {
            status if status.is_success() => Ok(answer.collect(max).await?),
            status => Err(FetchError::Status(status)),
        }
    }
}

// === impl FetchError ===

impl FetchError {
    fn is_passing(&self) -> bool {
        match self {
            Self::Status(status) => {
                let passing = [StatusCode::REQUEST_TIMEOUT, StatusCode::TOO_MANY_REQUESTS];
                status.is_server_error() || passing.contains(status)
            }
            Self::Egress(error) => matches!(
                error,
                EgressError::Connect(_) | EgressError::Broken(_) | EgressError::Crowded(_)
            ),
        }
    }
}

// === impl Folder ===

impl Folder {
    /// Reads the root document at `path`, a file or a folder.
    fn root(path: &Path) -> Result<Root, UpstreamError> {
        let unreadable =
            |reason: String| unavailable(format!("{} cannot be read: {reason}", path.display()));
        let io = |error: io::Error| unreadable(io_reason(error.kind()));
        let is_folder = fs::metadata(path).map_err(io)?.is_dir();
        let file = match is_folder {
            true => root_in(path).map_err(unreadable)?,
            false => path.to_owned(),
        };
        let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
        let folder = fs::canonicalize(parent.unwrap_or(Path::new("."))).map_err(io)?;
        let url = file.file_name().and_then(|name| Url::from_file_path(folder.join(name)).ok());
        let url = url.ok_or_else(|| unreadable("its name is not a file's".to_owned()))?;
        let folder = Self(folder);
        let bytes = match is_folder {
            true => folder.read(&url, MAX_DOCUMENT).map_err(unreadable)?,
            false => read(&file, MAX_DOCUMENT).map_err(io)?,
        };
        Ok(Root { url, bytes, folder: Some(folder) })
    }

    /// Reads a file beneath this folder of at most `max` bytes.
    fn read(&self, url: &Url, max: usize) -> Result<Vec<u8>, String> {
        const OUTSIDE: &str = "it is outside the folder of the document";
        let path = url.to_file_path().map_err(|()| OUTSIDE.to_owned())?;
        let inside = path.strip_prefix(&self.0).map_err(|_| OUTSIDE.to_owned())?;
        for part in inside.components() {
            match part {
                Component::Normal(name) if !name.as_encoded_bytes().starts_with(b".") => {}
                Component::Normal(_) => return Err("hidden files are not read".to_owned()),
                _ => return Err(OUTSIDE.to_owned()),
            }
        }
        let extension = path.extension().and_then(|extension| extension.to_str());
        if !extension.is_some_and(|name| EXTENSIONS.contains(&name.to_ascii_lowercase().as_str())) {
            return Err("only files named *.yaml, *.yml and *.json are read".to_owned());
        }
        let io = |error: io::Error| io_reason(error.kind());
        let real = fs::canonicalize(&path).map_err(io)?;
        if !real.starts_with(&self.0) {
            return Err("it is a link to a file outside the folder of the document".to_owned());
        }
        if !fs::metadata(&real).map_err(io)?.is_file() {
            return Err("it is not a file".to_owned());
        }
        let bytes = read(&real, max).map_err(io)?;
        if bytes.len() > max { Err(too_large()) } else { Ok(bytes) }
    }
}

/// Finds the root document in the folder `path`.
fn root_in(path: &Path) -> Result<PathBuf, String> {
    for name in ROOTS {
        let file = path.join(name);
        if file.exists() {
            return Ok(file);
        }
    }
    Err(format!("the folder has no {}; name the root document", ROOTS.join(", ")))
}

/// Reads one more local file of at most `left` bytes.
fn read_local(folder: Option<&Folder>, url: &Url, left: &mut usize) -> Result<Vec<u8>, String> {
    let folder = folder.ok_or("a document at an address has no local files")?;
    let bytes = folder.read(url, *left)?;
    *left = left.saturating_sub(bytes.len());
    Ok(bytes)
}

/// Reads the first `max + 1` bytes of a file.
fn read(path: &Path, max: usize) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let most = u64::try_from(max).unwrap_or(u64::MAX).saturating_add(1);
    File::open(path)?.take(most).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Takes `amount` from `left`, if enough is left.
fn take(left: &AtomicUsize, amount: usize) -> Option<()> {
    let rest = |left: usize| left.checked_sub(amount);
    left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, rest).ok().map(drop)
}

fn too_large() -> String {
    format!("the files of the document are larger than {} MiB together", MAX_DOCUMENT >> 20)
}

/// Runs `work` on a blocking thread: parsing a large document takes a second of CPU time, and a
/// document of many files needs thousands of system calls.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, UpstreamError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.map_err(|_| unavailable("reading the document was interrupted"))
}

#[cfg(test)]
mod tests;
