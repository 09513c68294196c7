/** A unit for systemd that runs the bot. The token is in the data folder, not in the unit. */
export function systemdUnit({ command, user }: { command: readonly string[]; user: string }): string {
  const quoted = command.map((word) => (/^[\w./:=@-]+$/.test(word) ? word : JSON.stringify(word)))
  return `[Unit]
Description=Sandkasten bot for Discord
Wants=network-online.target
After=network-online.target

[Service]
User=${user}
# Keys of models, as NAME=value lines. The file should have mode 0600.
EnvironmentFile=-/etc/sandkasten/discord.env
ExecStart=${quoted.join(' ')}
Restart=always
RestartSec=2
# The bot ends its work before it exits.
TimeoutStopSec=60
KillSignal=SIGTERM

[Install]
WantedBy=multi-user.target
`
}
