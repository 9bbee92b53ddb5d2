//! The witness of the record, in a separate file.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, ErrorKind, Read as _, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use async_trait::async_trait;
use toolcrib_core::{record::WitnessStore, store::StoreError, text::io_reason};

/// The most bytes of a witness that are read: the witness of 100 000 tenants has about 25 MB.
const MAX_BYTES: u64 = 64 << 20;

/// A file replaced as a whole.
#[derive(Debug, Clone)]
pub struct WitnessFile {
    path: PathBuf,
}

// === impl WitnessFile ===

impl WitnessFile {
    /// Creates the store of the file at `path`, which need not exist yet.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into() }
    }

    /// The path of the file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    fn failed(&self, doing: &str, error: &io::Error) -> StoreError {
        let path = self.path.display();
        StoreError::Unavailable(format!("{path} cannot be {doing} ({})", io_reason(error.kind())))
    }

    fn read(&self) -> Result<Option<String>, StoreError> {
        let read = File::open(&self.path).and_then(|file| {
            let mut bytes = Vec::new();
            file.take(MAX_BYTES).read_to_end(&mut bytes).map(|_| bytes)
        });
        match read {
            // Text that is cut or not UTF-8 is damaged and has no valid signature.
            Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).into_owned())),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(self.failed("read", &error)),
        }
    }

    fn replace(&self, text: &str) -> io::Result<()> {
        let parent = self.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        // A store elsewhere has not created it.
        if let Some(parent) = parent {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(parent)?;
        }
        let mut fresh = self.path.clone().into_os_string();
        fresh.push(".new");
        let mut options = OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, &self.path)?;
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }

    async fn off_the_runtime<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let file = self.clone();
        let ended = tokio::task::spawn_blocking(move || work(&file)).await;
        ended.unwrap_or_else(|_| {
            Err(StoreError::Unavailable("the task that accesses the witness panicked".to_owned()))
        })
    }
}

#[async_trait]
impl WitnessStore for WitnessFile {
    async fn load(&self) -> Result<Option<String>, StoreError> {
        self.off_the_runtime(Self::read).await
    }

    async fn save(&self, text: String) -> Result<(), StoreError> {
        let save =
            move |file: &Self| file.replace(&text).map_err(|error| file.failed("written", &error));
        self.off_the_runtime(save).await
    }
}
