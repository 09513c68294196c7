//! Statistics of an unpacked archive.

#[derive(Default)]
pub struct Counts {
    pub entries: u64,
    pub bytes: u64,
    /// Owners that do not exist in a sandbox.
    pub foreign_owners: u64,
    /// Extended attributes that images may not set, or that the file system does not support.
    pub skipped_attributes: u64,
    /// Devices, which are unusable in a sandbox and cannot be created in a user namespace.
    pub skipped_devices: u64,
    /// Opaque folders. "" is the root, where overlayfs ignores the attribute.
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
