//! An HTTP service that records its requests, byte for byte.

use std::{
    io::{Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
    thread,
    time::Duration,
};

/// The header of every request.
const USER_AGENT: &str = concat!("user-agent: toolcrib/", env!("CARGO_PKG_VERSION"));

/// An HTTP service on loopback that runs until the test ends.
pub(crate) struct Recorder {
    pub(crate) url: String,
    heard: Arc<Mutex<Vec<String>>>,
}

impl Recorder {
    /// Starts the service. `answer` maps method and target to status line, headers and body.
    pub(crate) fn start(answer: impl Fn(&str, &str) -> String + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let heard: Arc<Mutex<Vec<String>>> = Arc::default();
        let (hears, answer) = (Arc::clone(&heard), Arc::new(answer));
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let (hears, answer) = (Arc::clone(&hears), Arc::clone(&answer));
                thread::spawn(move || serve(stream, &hears, &*answer));
            }
        });
        Self { url, heard }
    }

    /// Returns the requests since the last call, without their common headers.
    pub(crate) fn heard(&self) -> Vec<String> {
        let heard = std::mem::take(&mut *self.heard.lock().unwrap());
        let host = self.url.trim_start_matches("http://").to_owned();
        heard
            .iter()
            .map(|request| {
                let (head, body) = request.split_once("\r\n\r\n").unwrap();
                let mut lines = head.split("\r\n");
                let first = lines.next().unwrap().to_owned();
                let mut kept: Vec<_> = lines
                    .filter(|line| *line != format!("host: {host}"))
                    .filter(|line| !line.starts_with("content-length: "))
                    .filter(|line| !line.starts_with("accept: "))
                    // Every request has both.
                    .filter(|line| *line != "accept-encoding: gzip" && *line != USER_AGENT)
                    .collect();
                kept.sort_unstable();
                format!("{first}\n{}\n\n{body}", kept.join("\n"))
            })
            .collect()
    }
}

/// Returns a response with a JSON body.
pub(crate) fn json(status: u16, body: &str) -> String {
    format!(
        "HTTP/1.1 {status} X\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    )
}

fn serve(mut stream: TcpStream, heard: &Mutex<Vec<String>>, answer: &dyn Fn(&str, &str) -> String) {
    stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let mut bytes = Vec::new();
    let mut chunk = [0_u8; 4096];
    loop {
        let end = loop {
            match bytes.windows(4).position(|four| four == b"\r\n\r\n") {
                Some(end) => break end + 4,
                None => match stream.read(&mut chunk) {
                    Ok(0) | Err(_) => return,
                    Ok(n) => bytes.extend_from_slice(&chunk[..n]),
                },
            }
        };
        let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length: "))
            .map_or(0, |length| length.trim().parse().unwrap());
        while bytes.len() < end + length {
            match stream.read(&mut chunk) {
                Ok(0) | Err(_) => return,
                Ok(n) => bytes.extend_from_slice(&chunk[..n]),
            }
        }
        let request = String::from_utf8_lossy(&bytes[..end + length]).into_owned();
        bytes.drain(..end + length);
        let mut words = head.split(' ');
        let (method, target) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let said = answer(method, target);
        heard.lock().unwrap().push(request);
        if stream.write_all(said.as_bytes()).is_err() {
            return;
        }
    }
}
