// @sandkasten/discord

// @sandkasten/discord/testing


