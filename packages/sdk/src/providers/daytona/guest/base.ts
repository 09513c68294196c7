/** Shared by all calls: the check of the sandbox's start, responses with an end marker, and base64. */
export const base = String.raw`
use strict;
use POSIX ();

my $base = '/tmp/.sandkasten';
my $answer = "sandkasten 1\n";
my ($verb, $born, @args) = @ARGV;
my $here = incarnation();

$| = 1;
$SIG{PIPE} = 'IGNORE';
refuse('interrupted', $here) if $born ne '-' && $born ne $here;
my $input = delete $ENV{SANDKASTEN_INPUT};
delete @ENV{qw(_ OLDPWD SHLVL PWD SANDKASTEN_AGENT)};

my %verbs = (
  hello => \&hello,
  stat => \&stat_file, ls => \&list_files, read => \&read_file, put => \&put_file,
  prepare => \&prepare_file, mkdir => \&make_folder, rename => \&rename_file,
  rm => \&remove_file, chmod => \&change_mode, symlink => \&make_link, readlink => \&read_link,
);
($verbs{$verb} or refuse('verb', $verb))->(@args);
finish();

# Responses: lines, and a dot that marks a complete response.

sub say_line { $answer .= join(' ', @_) . "\n" }

sub finish {
  $answer .= ".\n";
  put_all(\*STDOUT, $answer);
  POSIX::_exit(0);
}

sub refuse {
  my ($code, $text) = @_;
  $answer = "sandkasten 1\n! $code " . b64($text) . "\n";
  finish();
}

# Reports a failed system call by its errno.
sub broken { refuse('E' . ($! + 0), $_[0]) }

sub put_all {
  my ($to, $data) = @_;
  while (length $data) {
    my $n = syswrite($to, $data);
    next if !defined $n && $!{EINTR};
    return unless defined $n;
    substr($data, 0, $n) = '';
  }
  return 1;
}

sub b64 {
  my $data = $_[0];
  my $text = pack('u', $data);
  $text =~ s/^.//mg;
  $text =~ s/\n//g;
  $text =~ tr|\x60 -_|AA-Za-z0-9+/|;
  my $pad = (3 - length($data) % 3) % 3;
  substr($text, -$pad, $pad) = '=' x $pad if $pad;
  return $text;
}

sub unb64 {
  my $text = $_[0];
  $text =~ tr|A-Za-z0-9+/||cd;
  $text =~ tr|A-Za-z0-9+/| -_|;
  my $data = '';
  while ($text =~ /(.{1,60})/gs) { $data .= unpack('u', chr(32 + int(length($1) * 3 / 4)) . $1) }
  return $data;
}

sub slurp {
  open(my $from, '<', $_[0]) or return undef;
  local $/;
  return scalar readline($from);
}

# The start of the sandbox, as the agent for programs knows it: of its first process, and the boot of its kernel.
sub incarnation {
  my $line = slurp('/proc/1/stat') || '';
  $line =~ s/^.*\)//s;
  my $boot = slurp('/proc/sys/kernel/random/boot_id') || '';
  chomp $boot;
  return ((split ' ', $line)[19] || 0) . "-$boot";
}

sub hello {
  say_line('hello', $here, b64(POSIX::getcwd()), $<);
}
`
