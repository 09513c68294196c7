/** Starts programs, sends requests to their keepers, and reads the records of keepers that have ended. */
export const processes = String.raw`
# Each process has a keeper: a process of this agent that holds its output and input until its exit is recorded.

sub folder { return "$base/p/$_[0]" }

sub start {
  my ($id, $rid, $poll, $timeout, $capacity, $stdin, $forget, $cwd, $cmd, @rest) = @_;
  forget_processes(split /,/, $forget);
  mkdir "$base/p", 0700;
  my $dir = folder($id);
  until (mkdir $dir, 0700) {
    broken($dir) unless $!{EEXIST};
    my $meta = slurp("$dir/meta");
    if (defined $meta && (split ' ', $meta)[0] ne $here) { remove_tree($dir); next }
    # An ended terminal is not reused.
    if ($stdin =~ /^t/ && -e "$dir/exit") { remove_tree($dir); next }
    if (defined $meta) { say_line('found'); return ask($id, first_read($rid, $poll)) }
    select(undef, undef, undef, 0.02);
  }
  pipe(my $told, my $tell) or broken('pipe');
  my $child = fork;
  broken('fork') unless defined $child;
  if (!$child) {
    POSIX::setsid();
    my $keeper = fork;
    POSIX::_exit(0) if $keeper;
    POSIX::_exit(1) unless defined $keeper;
    close $told;
    keep({ id => $id, dir => $dir, rid => $rid, timeout => $timeout, capacity => $capacity,
      stdin => $stdin, cwd => $cwd, cmd => [$cmd, @rest] }, $tell);
    POSIX::_exit(0);
  }
  close $tell;
  waitpid($child, 0);
  my $status = readline($told);
  if (!defined $status || $status !~ /^ok/) {
    remove_tree($dir);
    my ($where, $errno) = defined $status ? $status =~ /^(\w)(\d+)/ : ('X', 11);
    refuse($where . $errno, $where eq 'C' ? $cwd : $cmd);
  }
  say_line('started');
  return if $rid eq '-';
  ask($id, first_read($rid, $poll));
}

sub first_read { my ($rid, $poll) = @_; return "read $rid 0 1048576 " . ($rid eq '-' ? '0 0' : "$poll 20") }

# Sends a request to the keeper, or reads its records if it has ended.
sub ask {
  my ($id, $request) = @_;
  my $dir = folder($id);
  my $meta = slurp("$dir/meta");
  refuse('process', $id) if !defined $meta || (split ' ', $meta)[0] ne $here;
  $request =~ s/\@input/defined $input ? $input : '-'/e;
  chdir $dir;
  socket(my $to, PF_UNIX, SOCK_STREAM, 0) or broken('socket');
  if (connect($to, sockaddr_un('s'))) {
    put_all($to, "$request\n");
    local $/;
    my $text = readline($to);
    if (defined $text && $text =~ /(^|\n)\.\n\z/) { $answer .= $text; put_all(\*STDOUT, $answer); POSIX::_exit(0) }
  }
  my $exit;
  for (1 .. 100) { last if defined($exit = slurp('exit')); select(undef, undef, undef, 0.02) }
  refuse('lost', $id) unless defined $exit;
  my ($what, @words) = split / /, $request;
  if ($what eq 'read') {
    my ($rid, $after, $max) = @words;
    my @lines = split /\n/, slurp('log');
    my $first = (split / /, $lines[0])[1];
    if ($after + 1 < $first) { say_line('g', $first); return }
    my $size = 0;
    for my $line (@lines) {
      next if (split / /, $line, 3)[1] <= $after;
      last if $size >= $max;
      say_line($line);
      $size += length($line) * 3 / 4;
    }
    say_line('z') unless $size;
  }
  elsif ($what eq 'feed') { unlink unb64($words[1]) if $words[1] ne '-'; say_line('closed') }
  elsif ($what eq 'kill') { say_line('0') }
  elsif ($what eq 'bye') { say_line('ok') }
  else { say_line('x', $exit) }
}

sub list_processes {
  opendir(my $all, "$base/p") or return;
  for my $id (sort grep { !/^[.~]/ } readdir $all) {
    my $dir = folder($id);
    my $meta = slurp("$dir/meta");
    next unless defined $meta;
    my ($born, $started, @cmd) = split ' ', $meta;
    next if $born ne $here;
    my $exit = slurp("$dir/exit");
    say_line('p', $id, $started, join(',', @cmd), defined $exit ? "x $exit" : 'running');
  }
}

# Removes records that are no longer needed, and the oldest of too many.
sub forget_processes {
  my @named = @_;
  remove_tree(folder($_)) for grep { -e folder($_) . '/exit' } @named;
  opendir(my $all, "$base/p") or return;
  my @ended = map { my $f = folder($_); [$f, (stat "$f/exit")[9], -s "$f/log"] } grep { -e folder($_) . '/exit' } readdir $all;
  my ($count, $bytes) = (0, 0);
  for my $one (sort { $$b[1] <=> $$a[1] } @ended) {
    $count++;
    $bytes += $$one[2];
    remove_tree($$one[0]) if $count > 100 || $bytes > 67108864;
  }
}

sub write_whole {
  my ($name, $text) = @_;
  open(my $to, '>', "$name.part") or return;
  put_all($to, $text);
  close $to;
  rename "$name.part", $name;
}
`
