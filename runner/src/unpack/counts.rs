//! What was unpacked, for whoever asked.

#[derive(Default)]
pub struct Counts {
    pub entries: u64,
    pub bytes: u64,
    /// Owners that do not exist in a sandbox.
    pub foreign_owners: u64,
    /// Extended attributes that are not an image's business, or that this file system does not take.
    pub skipped_attributes: u64,
    /// Which nobody could use in a sandbox, and nobody can make in a user namespace.
    pub skipped_devices: u64,
    /// Folders through which nothing below shows; "" is the root, which overlayfs itself does not ask.
    pub opaque: Vec<String>,
}

impl Counts {
    pub fn json(&self) -> String {
        format!(
            "{{\"entries\":{},\"bytes\":{},\"foreignOwners\":{},\"skippedAttributes\":{},\"skippedDevices\":{},\"opaque\":[{}]}}",
            self.entries,
            self.bytes,
            self.foreign_owners,
            self.skipped_attributes,
            self.skipped_devices,
            self.opaque.join(",")
        )
    }
}
