/** File operations with the system's errno: the vendor's file calls distinguish only two errors. */
export const files = String.raw`

sub facts {
  my (@s) = @_;
  my $format = $s[2] & 0170000;
  my $type = $format == 0100000 ? 'f' : $format == 0040000 ? 'd' : $format == 0120000 ? 'l' : 'o';
  return ($type, $s[7], $s[2] & 07777, $s[9]);
}

sub stat_file {
  my ($path, $follow) = @_;
  my @s = $follow ? stat $path : lstat $path;
  broken($path) unless @s;
  say_line(facts(@s));
}

sub list_files {
  my ($path, $deep) = @_;
  opendir(my $all, $path) or broken($path);
  closedir $all;
  list_below($path, '', $deep);
}

sub list_below {
  my ($path, $prefix, $deep) = @_;
  opendir(my $all, $path) or return;
  for my $name (grep { $_ ne '.' && $_ ne '..' } readdir $all) {
    my @s = lstat "$path/$name" or next;
    my @facts = facts(@s);
    say_line(b64($prefix . $name), @facts);
    list_below("$path/$name", "$prefix$name/", 1) if $deep && $facts[0] eq 'd';
  }
}

sub read_file {
  my ($path, $start, $length) = @_;
  # Opens without blocking and only for reading, so that a FIFO does not hang.
  sysopen(my $from, $path, 2048) or broken($path);
  my @s = stat $from;
  my ($type, $size) = facts(@s);
  if ($type eq 'd') { $! = 21; broken($path) }
  if ($type ne 'f') { $! = 22; broken($path) }
  sysseek($from, $start, 0);
  my ($data, $n) = ('', 1);
  while ($n && length($data) < $length) {
    $n = sysread($from, $data, $length - length($data), length $data);
    if (!defined $n) { next if $!{EINTR}; broken($path) }
  }
  say_line($size, b64($data));
}

# Resolves links, so that writing through a link keeps the link.
sub final {
  my ($path) = @_;
  for (1 .. 40) {
    my $to = readlink $path;
    return $path unless defined $to;
    $to = ($path =~ m|^(.*/)|s ? $1 : '') . $to unless $to =~ m|^/|;
    $path = $to;
  }
  $! = 40;
  broken($path);
}

sub make_parents {
  my ($path) = @_;
  return unless $path =~ m|^(.*[^/])/+[^/]+/*\z|s;
  my $folder = $1;
  return if -d $folder;
  if (-e $folder) { $! = 20; broken($folder) }
  if (lstat $folder) { $! = 2; broken($folder) }
  make_parents($folder);
  mkdir($folder, 0777) or $!{EEXIST} or broken($folder);
}

sub writable {
  my ($path) = @_;
  my $file = final($path);
  if ($path =~ m|/\z|) { $! = 21; broken($path) }
  make_parents($file);
  my @s = stat $file;
  if (!@s && !$!{ENOENT}) { broken($path) }
  if (@s && (facts(@s))[0] eq 'd') { $! = 21; broken($path) }
  return ($file, @s ? $s[2] & 07777 : 0644);
}

sub prepare_file {
  my ($path, $word) = @_;
  my ($file) = writable($path);
  my ($folder, $name) = $file =~ m|^(.*/)?([^/]*)\z|s;
  if (length $name > 255) { $! = 36; broken($path) }
  my $part = ($folder || './') . ".sandkasten-$word";
  open(my $to, '>', $part) or broken($path);
  $part = POSIX::getcwd() . "/$part" unless $part =~ m|^/|;
  say_line(b64($part));
}

# Uses an uploaded part, or the data in the call.
sub put_file {
  my ($path, $mode, $append, $part) = @_;
  my ($file, $known) = writable($path);
  my $data = defined $input ? unb64($input) : '';
  if ($append) {
    $data = slurp($part) if $part ne '';
    sysopen(my $to, $file, 1 | 64 | 1024 | 2048, $mode eq '' ? 0644 : oct $mode) or broken($path);
    put_all($to, $data) or broken($path);
    unlink $part if $part ne '';
    return;
  }
  my $folder = $file =~ m|^(.*/)|s ? $1 : './';
  if ($part eq '') {
    $part = $folder . '.sandkasten-' . $$ . '-' . int(rand(1e9));
    sysopen(my $to, $part, 1 | 64 | 128, 0600) or broken($path);
    if (!put_all($to, $data)) { my $errno = $! + 0; unlink $part; $! = $errno; broken($path) }
  }
  chmod($mode eq '' ? $known : oct $mode, $part);
  unless (rename $part, $file) { my $errno = $! + 0; unlink $part; $! = $errno; broken($path) }
}

sub make_folder {
  my ($path, $deep, $mode) = @_;
  my $bits = $mode eq '' ? 0777 : oct $mode;
  if ($deep) {
    return if -d $path;
    if (lstat $path) { $! = 17; broken($path) }
    make_parents($path);
  }
  mkdir($path, $bits) or ($deep && $!{EEXIST}) or broken($path);
  chmod $bits, $path if $mode ne '';
}

sub rename_file { my ($from, $to) = @_; rename($from, $to) or broken("$from to $to") }

sub remove_file {
  my ($path, $deep, $force) = @_;
  my @s = lstat $path;
  if (!@s) { return if $force && $!{ENOENT}; broken($path) }
  if ((facts(@s))[0] ne 'd') { unlink($path) or broken($path); return }
  if (!$deep) { rmdir($path) or broken($path); return }
  remove_tree($path) or broken($path);
}

sub remove_tree {
  my ($path) = @_;
  my @s = lstat $path or return;
  return unlink $path if (facts(@s))[0] ne 'd';
  if (opendir(my $all, $path)) {
    my @names = grep { $_ ne '.' && $_ ne '..' } readdir $all;
    closedir $all;
    for my $name (@names) { remove_tree("$path/$name") or return }
  }
  return rmdir $path;
}

sub change_mode {
  my ($path, $mode) = @_;
  stat $path or broken($path);
  chmod(oct $mode, $path) or broken($path);
}

sub make_link { my ($target, $path) = @_; symlink($target, $path) or broken($path) }

sub read_link { my ($path) = @_; my $to = readlink $path; broken($path) unless defined $to; say_line(b64($to)) }
`
