"""The kinds of dangerous operation that `danger` knows: the words that name each, and the safe way instead.

Everything is matched against NFKC text in lower case. Japanese and commands are matched without any spaces,
English with single spaces. A verb's pattern ends where its inflection begins (消(?=[さしすせそ])), so that what
follows can be read as inflection: 消した, 消さない, 消したい. Every repetition is bounded: texts may be long.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Kind:
    """A kind of dangerous operation. Found by thing and verb, by phrase, by command or by English words.

    harmless: what turns a find into something harmless. fine_after_preservation: allowed once evidence is kept."""

    operation: str
    safer: str
    thing: re.Pattern[str] | None = None
    verb: re.Pattern[str] | None = None
    phrase: re.Pattern[str] | None = None
    command: re.Pattern[str] | None = None
    english: re.Pattern[str] | None = None
    harmless: re.Pattern[str] | None = None
    fine_after_preservation: bool = False


def _any(*parts: str) -> re.Pattern[str]:
    return re.compile("|".join(parts))


# -- verbs ------------------------------------------------------------------------------------------------
_DELETE = (
    r"削除|消去|抹消|破棄|除去|デリート|クリア(?!ラ)|パージ|(?<!取り)(?<!打ち)消(?=[さしすせそ])|(?<![付分受助続掛片向])け(?=し[てちとたま]|す|そう)"
    r"|まっさら|まっ更|真っ白|白紙|空っぽ|空(?=に)|ゼロに|きれい(?=に|さっぱり)|綺麗(?=に)|掃除|[な無]かったこと|捨て|廃棄"
    r"|改ざん|改竄|書き?換え|上書き|ふっ?飛ば|吹き?飛ば|処分|始末|[な無]くし(?=[てたちと])|削(?=[らりるれろっ])"
    r"|葬(?=[らりるれろっ])|一掃|焼却|破砕|粉砕|(?<![a-z])(?:rm|drop|truncate|erase)(?=し|す|で)|delete|clear(?!ly)|purge|wipe"
)
_DISABLE = (
    r"無効|停止|オフ(?!ライン|ィス|セット)|off(?!line|ice|set)|(?<!期限)(?<!途)(?<!息)切(?=[らるれろっ]|り(?![替分離戻出取抜]))|(?<![っはすく])き(?=っ[てちと])|(?<![突受])(?<!突き)(?<!受け)止め"
    r"|(?<!突き)とめ(?=[てるたまち])|外(?=[さしすせそ])"
    r"|はず(?=[さしすせそ])|殺(?=[さしすせそ])|落と|アンインスト(?:ール)?|アンスト|ディスエーブル|ディセーブル|バイパス|すり抜け|黙らせ"
    r"|シャットダウン|disable|kill|stop(?!logging)|uninstall|[な無]し(?=」?に|でい)|回避|迂回|素通|くぐ(?=[らりるれろっ])|解約|permissive|カット|(?<![a-z])mask|パッシブ|(?:検知|検出|監視)のみ|監査モード|[な無]くし(?=[てたちと])|緩め|弱め|眠らせ|ストップ|アンロード|剥が|解除|撤去|抜(?=[いかきくけこ])"
)
_WIPE = (
    r"初期化|再(?:セットアップ|インストール|イメージ)|リイメージ|クリーンインストール|フォーマット|工場出荷|初期状態|出荷状態|捨て|穴(?=あけ|を[開空あ])|上書きインスト|ファクトリーリセット|リセット"
    r"|ワイプ|wipe|入れ直|作り直|立て直|作り替え|リカバリ(?=をかけ|かけ|し|す)|ゼロで|破砕|破壊|粉砕|スクラップ|まっさら|まっ更|真っ白|消去|上書き|セットアップし直|焼き直|ゼロ埋め|ゼロフィル|reimage|format(?!-)"
)
_RUN = r"回(?=[さしすせそ])|実行|走らせ|動か|起動|使(?=[わいうえおっ])|試(?=[さしすせそ])|ダウンロード|インストール|入れ(?!替)|かけ(?=[てるたまよ])|適用|流(?=[さしすせそ])|落と"
_OPEN = (
    r"開(?=[いかきくけこ])|ひら(?=[いかきくけこ])|(?:クリック|タップ|実行|起動|展開|解凍|アクセス|プレビュー|閲覧|有効化)"
    r"(?=し|する|でき|を試|を?お願|ok|\?|$)|踏(?=[んみむ])|動か|走らせ|有効(?=に)|挿(?=[さしすせそ])|差し込|読み取(?=[らりるれろっ])|押(?=[さしすせそ])|ぽちっ|ポチ"
)
_NOT_LOG = r"(?<![ブタアプイ])(?<!バック)"  # ブログ, カタログ, ダイアログ, ...
_LOG = (
    rf"{_NOT_LOG}ログ(?!イン|オン|オフ|アウト|イベント|チャ|ローテ)|イベントビュー[アワ]ー?|履歴|ヒストリー?|足跡|足あと|痕跡|証跡|形跡|跡(?=を)|証拠|記録|ジャーナル"
    r"|journal|history|audit\.log|syslog|evtx|/var/log|検体|脅迫文|ランサムノート|録画(?!機)|映像|メモリダンプ|(?<![a-z])logs?(?![a-z])"
)
_HOST = (
    r"pc|パソコン|端末|サーバ|マシン|ディスク|ssd|hdd|ドライブ|デバイス|スマホ|スマートフォン|iphone|android|タブレット|機器|nas|録画機"
    r"|ノート|ホスト|インスタンス|(?<![a-z])(?:vm|ec2)(?![a-z])|仮想マシン|ボリューム|ストレージ|ノード|コンテナ|機(?=を|は|も|、)"
)
_SUSPICIOUS = (
    r"(?:不審|怪し[いげ]|あやし[いげ]|疑わし|変な|謎の|フィッシング|偽|詐欺|スパム|迷惑|知らない|届いた|来た|きた|例の|攻撃者|脅迫|マルウェア|悪意)[^、。を]{0,14}?"
    r"(?:リンク(?:先)?|url|ファイル|添付|メール|サイト|ページ|アプリ|zip|エクセル|excel|word|pdf|qrコード|usb[^を、]{0,4}|exe|ツール|スクリプト|コード|プログラム"
    r"|マクロ)"
    r"|添付(?:ファイル)?|検体|サンプル(?:の)?|(?<![a-z.])(?:exe|xlsm|docm)(?![a-z])|マルウェア(?:本体)?|ウイルス(?:本体)?|編集(?=を有効)|\.(?:doc[mx]|xls[mx]|pptm|exe|lnk|js|vbs|iso|img|hta|scr|bat|ps1"
    r"|one|zip)(?![a-z])"
    r"|拾った(?:usb|ファイル)|マクロ|コンテンツの有効化"
)
_ATTACKER = r"(?:攻撃(?:元|者|側|グループ)|(?:よそ|他社|他人|先方)の(?=サーバ|端末|pc)|(?:フィッシング|偽)サイト|犯人|犯罪者|相手|ハッカー|(?<![a-z])c2|c&c|指令サーバ|送信元|加害|敵|向こう)"
_RANSOM = r"身代金|身の代金|ランサム(?:代|金|の要求額)|要求(?:額|金|された(?:金|額|ビットコイン|仮想通貨))|脅迫[^、。]{0,6}(?:金|額)|(?:攻撃者|犯人|ハッカー|犯罪者)に(?:お)?金"

# -- commands: AWS CLI and PowerShell join verb and noun by a hyphen, other tools take them in either order --------
_TOOL = (
    r"(?:(?<![a-z])(?:aws|az|gcloud|sc|net1?|reg|oc|log|rc|doc)|kubectl|docker|systemctl|service|launchctl|vssadmin|diskshadow"
    r"|wbadmin|wmic|esxcli|vim-cmd|virsh|gsutil|tmutil|diskutil|fltmc|falconctl|sentinelctl|mdatp|ufw|firewall-cmd|nft|wevtutil"
    r"|auditpol|journalctl|fsutil|netsh|csrutil|spctl|kextunload|bcdedit|pfctl|dism|schtasks|zfs|lvremove|restic|borg|velero)(?:\.exe)?"
)
_CMD_DELETE = r"(?:delete|remove|clear|purge|erase|drop|truncate|destroy|prune|forget|resize|vacuum|rm|rb)"
_CMD_DISABLE = (
    r"(?:stop|disabled?|mask|kill|unload|bootout|uninstall|remove|delete|suspend|deactivate|pause|unregister|false|off)"
)


def _cli(verb: str, nouns: str) -> str:
    # The lookahead takes the noun on either side of the verb, and keeps long texts linear.
    return rf"{verb}-[a-z-]{{0,20}}?(?:{nouns})|{_TOOL}(?=[!-~]{{0,60}}?(?:{nouns}))[!-~]{{0,60}}?{verb}"


# -- English building blocks: base and -ing forms only, as the past tells of what has happened ----------------
_EN_DELETE = (
    r"\b(?:delet(?:e|ing)|clear(?:ing)?(?: out)?|wip(?:e|ing)|eras(?:e|ing)|purg(?:e|ing)|remov(?:e|ing)"
    r"|scrub(?:bing)?|destroy(?:ing)?"
    r"|get(?:ting)? rid of|shred(?:ding)?|nuk(?:e|ing)|truncat(?:e|ing)|clean(?:ing)? (?:up|out)|overwrit(?:e|ing)"
    r"|tamper(?:ing)? with|zero(?:ing)? out|blow(?:ing)? away|trash(?:ing)?|dump(?:ing)?|drop(?:ping)?|flush(?:ing)?"
    r"|throw(?:ing)? (?:out|away)|edit(?:ing)?|alter(?:ing)?|rewrit(?:e|ing)|rm)\b"
)
_EN_DISABLE = (
    r"\b(?:disabl(?:e|ing)|turn(?:ing)? off|switch(?:ing)? off|shut(?:ting)? (?:off|down)|stop(?:ping)?"
    r"|kill(?:ing)?|uninstall(?:ing)?|remov(?:e|ing)"
    r"|bypass(?:ing)?|deactivat(?:e|ing)|paus(?:e|ing)|suspend(?:ing)?|get(?:ting)? rid of|drop(?:ping)?"
    r"|flush(?:ing)?|unload(?:ing)?|evad(?:e|ing)|circumvent(?:ing)?|mut(?:e|ing)|silenc(?:e|ing)|whitelist(?:ing)?"
    r"|opt(?:ing)? out of|skip(?:ping)?)\b"
)
# No other verb in between: "wiping it destroys evidence" is about wiping something else.
_GAP = r"(?:(?!\b(?:destroys?|loses?|violates?|will|would|may|might|could|is|are|can) )[^.?!;,]){0,45}?"


def _en(verb: str, things: str) -> re.Pattern[str]:
    # "turn Defender off" splits its verb, hence the second alternative.
    split = (
        rf"|\b(?:turn|switch|shut|take) {_GAP}\b(?:{things})\b[^.?!;,]{{0,20}} (?:off|down)\b" if "turn" in verb else ""
    )
    return re.compile(rf"{verb}{_GAP}\b(?:{things})\b{split}")


_WHOLE = r"(?:(?<![a-z])[a-z]:\\?(?![a-z\\])|[cd]ドライブ|全(?:フォルダ|ドライブ|ファイル)|(?:丸|まる)ごと|すべて|全部)"
_SAFE_DEFENCE = "止めずに作業し、支障があれば対象と期限を限った除外を緊急変更申請（SOCリーダーとシステム責任者の2名承認）で求めてください。"
_DISABLE_HARMLESS = re.compile(r"検知対象|失効|隔離を解除|分離を解除|分離から解放|ロックを解除|遮断を解除")

POWER_OPERATION = "保全前の電源断・再起動"

KINDS: tuple[Kind, ...] = (
    Kind(
        "ログ・証跡の削除",
        "ログや証拠は消さず、証拠サーバ（\\\\evidence01\\cases\\<チケット番号>）に保全し、容量不足なら退避して保存領域を増やしてください。",
        thing=_any(_LOG),
        verb=_any(_DELETE, r"リセット"),
        phrase=_any(
            r"(?:ログ|履歴|足跡|痕跡|証拠|証跡|記録|足)[がをはも]?(?:一切|何も|絶対)?(?:残[さら]|つか)(?:ない(?=よう|で(?!す)|方法|やり方|形)|ず(?=に))",
            r"(?:ログ|履歴|記録)[^。]{0,6}(?:保存|保持|保管)(?:期間|日数)[^。]{0,6}(?:0日|ゼロ|1日|最短)",
            r"ログ(?:から|の中の)[^。を]{0,20}(?:だけ|を|行)(?:抜(?=[いか])|消(?=[さしすせそ])|削(?=[らりっる除])|除い)",
        ),
        command=_any(
            _cli(
                _CMD_DELETE,
                r"event-?logs?|wineventlogs?|logs?(?![a-z])|log-?(?:group|stream)s?|sinks?|trail|history|journal|usn"
                r"|(?:time|size|files)(?==)|diagnostic-settings",
            ),
            r"wevtutil(?:\.exe)?(?:cl|clear-log)|auditpol(?:\.exe)?/(?:clear|remove)|history-(?:c|w)",
            r"unsethistfile|histfile=/dev/null|histsize=0|ln-sf/dev/null~/\.bash_history|set\+ohistory",
            r"(?:rm|shred|srm|unlink)(?:-[a-z]{1,6}|--[a-z]{1,12}){0,3}(?:sudo)?['\"]?(?:/var/log"
            r"|~?/?[\w/.]{0,30}\.bash_history|[\w/.]{0,40}(?:\.log|\.evtx|journal))",
            r"find[\w/.-]{0,20}log[!-~]{0,60}-(?:delete|execrm)|truncate(?:-s0|--size[= ]?0)[\w/.*-]{0,60}",
            r"(?:cat/dev/null|echo['\"]{0,2}|:)?>/var/log/[\w/.-]{1,40}",
            r"(?:del|erase|remove-item)[^。]{0,40}(?:\.evtx|winevt|\.log(?![a-z]))|(?:(?<![a-z])|sudo)logerase",
        ),
        english=_en(
            _EN_DELETE,
            r"(?:\w+ )?logs?(?!in)|event ?logs?|histor(?:y|ies)|evidence|(?:our |my |the )?tracks|traces"
            r"|audit (?:trail|log|polic)\w*|journal|artifacts|ransom note",
        ),
        harmless=re.compile(r"ログイン|ログアウト|通知|キャッシュを"),
    ),
    Kind(
        "端末・ディスクの初期化",
        "初期化の前にネットワークから隔離し、メモリ・通信・ログ・ディスクの順に証拠を保全して、SOCリーダーの復旧承認を待ってください。",
        thing=_any(_HOST),
        verb=_any(_WIPE),
        phrase=_any(
            r"クリーンインストール|工場出荷(?:状態|時)|(?:os|windows|linux|イメージ)(?:を|の|から|ごと)?(?:上書き|再インストール|入れ直|クリーンインストール)",
            r"(?:ランサム|感染|ウイルス|侵入|乗っ取)[^。を]{0,20}(?:初期化|フォーマット|リセット)",
            r"(?:調査|保全|報告|相談)(?:の|する)?前に[^。を]{0,12}を?[^。を]{0,10}(?:初期化|リセット|フォーマット|ワイプ|破砕|処分|廃棄|交換)",
            r"(?:調べ|確認せ|保全せ|調査せ|報告せ|相談せ|取ら)ず(?:に)?[^。を]{0,12}(?:初期化|リセット|フォーマット|ワイプ)",
        ),
        command=_any(
            r"(?<![a-z-])format(?:\.com)?[a-z]:",
            r"diskpart[^。]{0,40}clean|(?:clear|reset|initialize)-disk|format-volume|reset-?computer|systemreset",
            r"(?<![a-z])mkfs(?:\.\w{2,6})?[-/\w]{0,12}/dev/|ddif=/dev/(?:zero|u?random)|shred[-\w]{0,12}/dev/",
            r"rm-(?:rf|fr|r)(?:--no-preserve-root)?/(?:\*|\s|$|[を。、で])",
            r"cipher/w|sdelete|wipefs|blkdiscard|hdparm[-\w]{0,20}security-erase|nvmeformat",
            r"diskutil(?:secure)?(?:erase|zero)|aws[!-~]{0,20}deletevolume|ec2delete-volume",
        ),
        english=_en(
            r"\b(?:wip(?:e|ing)|re-?imag(?:e|ing)|format(?:ting)?|re-?install(?:ing)?|factory[- ]reset(?:ting)?"
            r"|reset(?:ting)?|re-?initiali[sz](?:e|ing)|rebuild(?:ing)?|destroy(?:ing)?|eras(?:e|ing)|nuk(?:e|ing))\b",
            r"pcs?|computers?|machines?|hosts?|servers?|laptops?|workstations?|endpoints?|disks?|drives?"
            r"|devices?|phones?|os|operating system|windows|box(?:es)?",
        ),
        harmless=re.compile(r"パスワード|(?:標準|ひな型)イメージの|書式"),
        fine_after_preservation=True,
    ),
    Kind(
        "EDR・ウイルス対策の無効化",
        "EDRやウイルス対策は" + _SAFE_DEFENCE,
        thing=_any(
            r"(?<![a-z])edr(?![a-z])|(?<![a-z])av(?![a-z])|アンチ(?:ウイルス|ウィルス|マルウェア)",
            r"(?:ウイルス|ウィルス)(?:対策|スキャン|バスター|検知)",
            r"セキュリティ(?=を|は|機能|対策|製品|ソフト|エージェント)|defender|ディフェンダー?",
            r"(?<![a-z])mde(?![a-z])|crowdstrike|falcon|クラウドストライク|sentinelone|cortex",
            r"リアルタイム(?:保護|スキャン|検知|監視)|保護機能|防御",
            r"検知(?=機能|ルール|を[^。、]{0,8}(?:[切止外]|とめ|黙|オフ|無効|停止|回避|すり抜け|逃れ))",
            r"常駐(?=を|は|保護|プロ|ソフト)|改ざん防止|tamper|タンパー|保護ビュー|マクロ(?:制限|ブロック)",
            r"センサー?(?=を|は|も|だけ|、)|smartscreen|(?<![a-z])(?:amsi|applocker|dlp|asr|mdatp)(?![a-z])",
        ),
        verb=_any(_DISABLE),
        phrase=_any(
            rf"{_WHOLE}[^。]{{0,12}}(?:除外|例外|許可リスト|ホワイトリスト)",
            rf"(?:除外|例外|許可リスト|ホワイトリスト)[^。]{{0,10}}{_WHOLE}",
        ),
        command=_any(
            r"set-mppreference[^。]{0,60}-disable\w{3,40}",
            r"(?:add|set)-mppreference-exclusion(?:extension|process|path['\"]?c:\\?(?:['\"]|$|\s|[を。、で]))",
            _cli(
                _CMD_DISABLE,
                r"windefend|windows-?defender|sense(?!r)|wdnissvc|csagent|csfalcon\w{0,8}|mdcoresvc|sentinel(?:agent|one)?(?![a-z])"
                r"|mdatp|falcon-sensor|clam(?:av|d)|crowdstrike|real-?time-?protection|cbagent|xagt|wdavdaemon",
            ),
            r"(?:falconctl|sentinelctl|mdatp|cytool)[!-~]{0,40}(?:unload|uninstall|stop|disabled?|passive)",
            r"disableantispyware|disablerealtimemonitoring|csrutildisable|spctl--master-disable|mpcmdrun(?:\.exe)?-removedefinitions",
            r"(?:taskkill|pkill|killall|stop-process)[^。]{0,30}(?:msmpeng|mssense|falcon|mdatp|wdavdaemon|sentinel)",
        ),
        english=_en(
            _EN_DISABLE,
            r"edr|av|anti-?virus|anti-?malware|(?:microsoft |windows )?defender|falcon|crowdstrike|sentinelone"
            r"|real[- ]time (?:protection|scanning)|endpoint (?:protection|security|agent)|tamper protection"
            r"|security (?:agent|software|tools?)",
        ),
        harmless=_DISABLE_HARMLESS,
    ),
    Kind(
        "監査・ログ取得の停止",
        "監査やログ取得は" + _SAFE_DEFENCE,
        thing=_any(
            r"監査(?!法|人|室|部|対応|役|報告)|auditd?(?![a-z])|sysmon",
            r"(?<![a-z])siem(?:へ?の?(?:転送|送信|連携))?(?![a-z])|sentinel(?!one)|cloudtrail|guardduty",
            r"vpcフローログ",
            rf"{_NOT_LOG}ログ(?:の)?(?:取得|収集|出力|記録|転送|採取|送信)?(?:エージェント|サービス|機能)?(?=を|は|も|止|停|出力|[取収])",
            r"ロギング|logging|監視(?!カメラ|元|対象|期間)|rsyslog|syslog|イベント(?:の)?記録|アラート(?=を)",
        ),
        verb=_any(_DISABLE),
        command=_any(
            _cli(
                _CMD_DISABLE,
                r"auditd?(?![a-z])|auditing|rsyslogd?|systemd-journald|syslog|sysmon(?:64)?|sysmondrv|eventlog|logging|detector"
                r"|flow-logs|configuration-recorder|guardduty|security-?hub|diagnostic-settings",
            ),
            r"ログ[^。]{0,8}/dev/null|auditctl-(?:e0|d)|fltmcunloadsysmon|sysmon(?:64)?(?:\.exe)?-u|service(?:auditd?|rsyslogd?|syslog)stop",
            r"auditpol(?:\.exe)?/set[^。]{0,80}(?:success|failure):disable",
            r"wevtutil(?:\.exe)?sl[^。]{0,40}/e:false|set-adminauditlogconfig[^。]{0,60}\$false",
        ),
        english=_en(
            _EN_DISABLE,
            r"audit(?:ing|d)?|audit polic\w*|logging|log collection|event log(?: service)?|sysmon|siem|monitoring"
            r"|cloudtrail|guardduty",
        ),
        harmless=re.compile(r"監査ログの(?:保管|保存)|検知対象|失効"),
    ),
    Kind(
        "ファイアウォールの無効化",
        "ファイアウォールは" + _SAFE_DEFENCE,
        thing=_any(
            r"ファイ[アヤ]ー?ウォール|firewalld?",
            r"(?<![a-z])(?:ufw|fw|waf|ips|ids|nftables|iptables|selinux|uac)(?![a-z])|侵入(?:防止|検知)",
            r"プロキシ|条件付きアクセス",
        ),
        verb=_any(_DISABLE),
        phrase=_any(
            r"(?:any[-/]?any|フルオープン|全許可|全(?:ポート|通信|開放|世界)|どこからでも)[^。]{0,12}(?:許可|permit|allow|開放|開け|あけ|公開|ルールを?(?:追加|入れ|作))",
            r"(?:ファイ[アヤ]ー?ウォール|(?<![a-z])fw|iptables|nftables|waf)の?(?:ルール|設定|ポリシー)を?(?:全部|すべて|全て|丸ごと|全)"
            r"(?:消(?=[さしすせそ])|削除|クリア|フラッシュ|外(?=[さしすせそ]))",
            r"(?:ファイ[アヤ]ー?ウォール|(?<![a-z])fw)(?:を|は)?[^。を]{0,10}(?:開け(?=[てたまよ])|開放|全開|ザルに)",
        ),
        command=_any(
            _cli(_CMD_DISABLE, r"firewall(?:d|profile)?(?![a-z])|nftables|iptables|ufw|mpssvc|bfe(?![a-z])"),
            r"netsh(?:adv)?firewallset\w{1,20}(?:state|opmodemode?=?)?(?:off|disable)",
            r"set-netfirewallprofile[^。]{0,60}-enabled:?(?:\$?false|0)",
            r"iptables-(?:f|x|p(?:input|forward|output)accept)(?![a-z])",
            r"nftflushruleset|ufw(?:--force)?(?:disable|reset)|pfctl-d|setenforce(?:0|permissive)|selinux=(?:disabled|permissive)",
            r"firewall-cmd--panic-off|authorize-security-group-ingress[!-~]{0,60}0\.0\.0\.0/0",
        ),
        english=_en(_EN_DISABLE, r"firewalls?|firewall rules|iptables|selinux|waf|ips|proxy"),
        harmless=re.compile(r"検知対象|遮断を解除|waf(?:の)?ルール|例外"),
    ),
    Kind(
        "多要素認証の解除",
        "多要素認証は外さず、本人確認のうえ対象者だけ再登録し、変更は緊急変更申請の2名承認を得てください。",
        thing=_any(
            r"(?:多|二|2)(?:要素|段階)認証|(?<![a-z])(?:mfa|2fa)(?![a-z])|ワンタイムパスワード|(?:2|二|多)要素",
            r"(?:sms|追加|電話|アプリ)認証",
        ),
        verb=_any(_DISABLE, r"スキップ", r"免除", r"対象外", r"リセット(?=し(?:て|たい)?(?:全|みん))"),
        phrase=_any(r"(?:認証|(?<![a-z])(?:mfa|2fa))(?:なし|無し|抜き)で[^。]{0,14}(?:よう(?:に|、)|させ|通(?=し))"),
        english=_en(_EN_DISABLE, r"mfa|2fa|(?:multi|two)[- ]factor(?: auth\w*)?"),
    ),
    Kind(
        "シャドウコピー・バックアップの削除",
        "シャドウコピーやバックアップは消さずに切り離して保護し、容量不足なら保存領域を追加し、変更は緊急変更申請の2名承認を得てください。",
        thing=_any(
            r"シャドウ・?コピー|ボリュームシャドウ|shadowcop(?:y|ies)|(?<![a-z])vss(?![a-z])",
            r"バックアップ(?!コードの)|backup|(?:復元|リストア)ポイント|スナップショット|snapshot",
            r"(?:古い|過去の)世代|世代(?=を|も|は)|テープ",
        ),
        verb=_any(_DELETE, r"間引(?=[いかきくけ])"),
        phrase=_any(
            r"バックアップ(?:の)?(?:ジョブ|取得|処理|スケジュール)?(?:が[^。、を]{0,12}を?[^。、を]{0,8}ので、?|を|は)[^。を]{0,8}(?:止め|停止(?=し|す)|無効|オフ)"
        ),
        command=_any(
            _cli(
                _CMD_DELETE,
                r"shadow(?:s|storage|copy)?(?![a-z])|catalog|(?:systemstate)?backups?|snapshots?|localsnapshots|recovery-points?"
                r"|wbbackupset|vmsnapshot|vmcheckpoint|restore-?points?",
            ),
            r"shadowcopydelete|bcdedit[^。]{0,40}(?:recoveryenabled(?:no|off)|ignoreallfailures)",
            r"(?:restic|borg)[^。]{0,40}(?:forget|prune|delete)|win32_shadowcopy[^。]{0,40}(?:delete|remove)",
            r"s3(?:rm|rb)[^。]{0,60}--(?:recursive|force)|rm-(?:rf|fr)[^。]{0,30}backup",
        ),
        english=_en(_EN_DELETE, r"shadow cop(?:y|ies)|shadows|back-?ups?|restore points?|snapshots?"),
        harmless=re.compile(r"自動削除を(?:一時)?停止|(?:上書き|感染|拡大|汚染)(?:され|し)?(?:ない|を防)"),
    ),
    Kind(
        POWER_OPERATION,
        "電源は切らず再起動もせず、通電したままネットワークから隔離し、メモリから順に証拠を保全してください。",
        phrase=_any(
            r"再起動|リブート|(?<![a-z])(?:reboot|restart)(?![a-z-])|シャットダウン|電源断",
            r"(?:電源|電げん|でんげん)[^、。]{0,9}?(?:切(?=[らりるれろっ])|落と|落ち?(?=して)|オフ|off|抜(?=[いかきくけこ])|(?<![っ])き(?=っ[てちと])|長押し"
            r"|断(?=し|す))|強制終了|電源ボタン[^、。]{0,6}押",
            r"ブレーカー[^、。]{0,5}(?:落と|切(?=[らりるれろっ]))|(?:pc|端末|サーバー?|マシン)[^、。]{0,6}(?:スリープ|休止)(?=さ|し|に)",
            r"コンセント[^、。]{0,5}抜(?=[いかきくけこ])",
            r"(?:サーバー?|pc|パソコン|端末|マシン|ホスト)(?!の(?!電源))[^、。で]{0,10}?落と|立ち上げ直",
            r"再立ち上げ|落と(?=し)[^。、]{0,6}(?:上げ|起動)|ハードリセット|強制停止|パワーオフ",
            r"(?:紛失|盗難|見つかった|戻ってきた)[^。]{0,30}(?:起動|電源を入れ|ログイン)(?=し|す|て|る)",
            r"バッテリー[^、。]{0,4}(?:抜(?=[いかきくけこ])|外(?=[さしすせそ]))|電プチ|ec2をterminate",
            r"インスタンス(?:を|の)?(?:終了|terminate|削除)",
        ),
        command=_any(
            r"(?<![a-z])shutdown(?:\.exe)?[-/](?:[srhfgp](?![a-z])|now|t)|shutdownnow",
            r"(?:restart|stop)-computer|systemctl(?:--force)?(?:reboot|poweroff|halt|kexec)",
            r"(?<![a-z])init[06](?!\d)|(?:sudo)(?:reboot|poweroff|halt)(?![a-z])",
            r"(?<![a-z])(?:poweroff|reboot)-f",
            r"(?:terminate|reboot|stop)-instances?(?![a-z])|(?:stop|restart)-vm(?![a-z])|instances(?:stop|delete|reset)",
            r"virsh(?:destroy|reboot|shutdown)|vmsvc/power\.(?:off|reset)|esxcli[!-~]{0,30}(?:shutdown|reboot|kill)",
        ),
        english=re.compile(
            r"\b(?:re-?boot(?:ing)?|re-?start(?:ing)?|power(?:ing)?[- ](?:off|down|cycl(?:e|ing))"
            r"|shut(?:ting)?[- ]?(?:down|off)|turn(?:ing)? off|switch(?:ing)? off|unplug(?:ging)?"
            r"|pull(?:ing)? the (?:plug|power))\b"
            r"[^.?!;,]{0,30}?(?:\b(?:pcs?|computers?|machines?|hosts?|servers?|laptops?|workstations?|endpoints?"
            r"|box(?:es)?|it|plug|devices?|vms?|power)\b)"
            r"|\b(?:turn|shut|power|switch) (?:it|them|(?:the|this|that|my|our|all)(?: \w+){1,3}?) (?:off|down)\b"
        ),
        harmless=re.compile(
            r"(?:サービス|プロセス|デーモン|アプリ|ブラウザ|outlook|teams|explorer|sshd|httpd|nginx|プリンター?|複合機|ルータ|スイッチ|プロジェクター|モニター?"
            r"|機能)[をの]?[^、。]{0,6}(?:再起動|リブート|強制終了|シャットダウン|restart)"
            r"|(?:更新|パッチ|アップデート|適用|修正|update|patch)[^。]{0,20}(?:再起動|リブート|restart|reboot)|再起動後(?:に|も|の)|再起動(?:が"
            r"|の)(?:必要|要否|漏れ|予定)"
        ),
        fine_after_preservation=True,
    ),
    Kind(
        "身代金の支払い・攻撃者との交渉",
        "身代金は現場で払わず交渉もせず、CSIRT責任者に報告して、CISOと法務・コンプライアンス室の協議に委ねてください。",
        thing=_any(
            _RANSOM,
            r"ビットコイン|\dbtc|仮想通貨|暗号資産",
            r"(?:攻撃者|攻撃(?:側|グループ)|犯人|犯行グループ|ハッカー|犯罪者|脅迫(?:者|文|メール))(?=と|に|の|へ)",
        ),
        verb=_any(
            r"払(?=[わいうえおっ])|支払|はら(?=[わいうえおっ])|送金|送(?=[らりるれろっ])|返事|取引|振り?込",
            r"渡(?=[さしすせそ])|応じ|交渉(?=し|す|を|で|に|$)|(?:飲|の)(?=[まみむめもん]で?)|値切",
            r"連絡(?=を?取|し(?:て|たい|よう|ま))|返信(?=し)|工面",
        ),
        english=_any(
            r"\bpay(?:ing)?\b[^.?!;,]{0,40}\b(?:ransom|attackers?|hackers?|criminals?|extortion\w*|bitcoin|them)\b",
            r"\bsend(?:ing)?\b[^.?!;,]{0,20}\b(?:bitcoins?|btc|ransom)\b",
            r"\b(?:negotiat(?:e|ing)|bargain(?:ing)?) with\b[^.?!;,]{0,30}\b(?:attackers?|hackers?|criminals?|gang"
            r"|them)\b",
            r"\b(?:reply(?:ing)? to|contact(?:ing)?|e-?mail(?:ing)?|talk(?:ing)? to)\b[^.?!;,]{0,15}\b(?:attackers?|hackers?|criminals?|extortion\w*)\b",
            r"\bransom (?:payment|should be paid|must be paid)",
        ),
        phrase=_any(
            r"(?:攻撃者|犯人|ハッカー|犯罪者)(?:へ|に)の(?:支払|送金)",
            r"(?:値下げ|値引き?|減額)(?:を|の|して)?(?:交渉|頼|お願い|持ちかけ)",
            r"復号(?:キー|鍵|ツール)[^、。]{0,4}(?:買(?=[わいうえおっ])|購入)",
        ),
        harmless=re.compile(r"可否|要否|是非|(?<!現場)(?<!現場の)(?<!独自)判断|協議|決定権|誰が(?:決|判)|相談"),
    ),
    Kind(
        "攻撃元への反撃・接続",
        "攻撃元には接続も反撃もせず、通信先の遮断と記録にとどめ、手元のログで調べて必要なら警察・JPCERT/CCへの相談を対策会議に諮ってください。",
        thing=_any(_ATTACKER + r"(?:の|側の|側)?[^、。がはをにへで]{0,14}?(?=[にへをもと]|宛|側)"),
        verb=_any(
            r"侵入|ハッキング|ハック|攻撃(?=し|を(?:かけ|し|仕掛|加)|を?返)|スキャン(?=し|を|か|で)|nmap|ddos",
            r"dos攻撃|総当たり",
            r"(?:接続|アクセス|ログイン)(?=し(?:、|て|た[いら]|ま|よ|ち|と)|を試|する(?=方法|手順|コマンド|。|$))",
            r"乗っ取(?=[らりるれろっ])|乗り込(?=[まみむめもん])|潰(?=[さしすせそ])|つぶ(?=[さしすせそ])",
            r"ダウンさせ|パケットを(?:大量に)?送|入(?=って|り込)|フラッド|flood|黙らせ|送りつけ|エクスプロイト",
            r"ウイルスを?(?:送|仕込)|落と(?=し|す|せ)",
        ),
        phrase=_any(
            r"反撃|やり返(?=[さしすせそ])|ハック・?バック|hackback|逆(?:ハック|侵入|探知して侵入)|報復|仕返し",
            r"(?:侵入|攻撃|ハッキング|ハック|スキャン|ddos|乗り込み|潜り込|打ち|送り|投げ|撃ち)し?返(?=[さしすせそ])",
            r"逆に[^、。]{0,14}(?:侵入し|攻撃し|ハック|スキャンし|乗り込)",
            r"お返しに[^、。]{0,14}(?:攻撃|侵入|ハック)",
        ),
        english=_any(
            r"\bhack(?:ing)?[- ]?back\b|\bstrik(?:e|ing) back\b|\bretaliat(?:e|ing|ion)\b",
            r"\bcounter-?attack(?:ing)?\b|\battack(?:ing)? (?:them|the attackers?|the c2|back)\b",
            r"\b(?:hack|break|exploit|ddos|nmap|ping|flood|probe|scan|take down"
            r"|port[- ]?scan)(?:ing)?(?: into)?\b[^.?!;,]{0,30}\b(?:attackers?'?s?|c2|c&c|their (?:server"
            r"|infrastructure|network|system|host|ip)s?)\b",
        ),
        harmless=re.compile(r"(?:通信|接続|アクセス)を?(?:遮断|ブロック)|脆弱性スキャン"),
    ),
    Kind(
        "不審なファイル・リンクを業務端末で開く",
        "業務端末では開かず、原本を証拠サーバに保存してSOC当番に渡し、社内網から切り離した解析専用端末で静的に確認してください。",
        thing=_any(_SUSPICIOUS),
        verb=_any(_OPEN),
        english=re.compile(
            r"\b(?:open(?:ing)?|click(?:ing)?(?: on)?|execut(?:e|ing)|run(?:ning)?|launch(?:ing)?"
            r"|double-click(?:ing)?|visit(?:ing)?|detonat(?:e|ing)|enabl(?:e|ing))\b[^.?!;,]{0,30}?"
            r"(?:\b(?:suspicious|malicious|phishing|unknown|weird|strange|infected"
            r"|untrusted)\b[^.?!;,]{0,20}\b(?:file|attachment|link|url|email|document|macro|site|program|script"
            r"|usb)s?\b|\b(?:attachment|malware|macros|sample|\w{0,20}\.(?:docm|exe|xlsm|js|lnk|iso))\b)"
        ),
        harmless=re.compile(
            r"解析(?:専用|用|環境)|サンドボックス|sandbox|隔離(?:環境|された|した(?:環境|仮想))|検証(?:環境|用)|仮想環境|isolated|analysis (?:vm"
            r"|machine|environment)|air-?gapped|制限|ブロック|開か(?=ず|な)|無効"
        ),
    ),
    Kind(
        "不明な復号ツールの使用",
        "出所の不明な復号ツールは動かさず、入手した物と暗号化されたファイルを残してSOCリーダーへ渡し、安全な世代のバックアップから復元してください。",
        thing=_any(
            r"(?:復号|解読|暗号解除|復元|解除)(?:化)?(?:用)?(?:の)?(?:ツール|ソフト|プログラム|アプリ|スクリプト|exe)",
            r"デクリプタ|デクリプター|decryptor|decrypter|復号キー",
        ),
        verb=_any(_RUN),
        english=re.compile(
            r"\b(?:run(?:ning)?|try(?:ing)?(?: out)?|us(?:e|ing)|download(?:ing)?|execut(?:e|ing)"
            r"|install(?:ing)?)\b[^.?!;,]{0,40}\b(?:decrypt(?:or|er|ion tool)s?)\b"
        ),
    ),
    Kind(
        "アカウント・データの削除",
        "削除せず無効化やアクセス制限にとどめ、原本を保全したうえで緊急変更申請の2名承認を得てください。",
        thing=_any(
            r"アカウント|垢(?=[はをもご、])|ユーザー?(?!名|の申告)|メールボックス|(?<![a-z])id(?![a-z])",
            r"(?<!メタ)(?<!利用)データ(?!センタ|イベント)|データベース|(?<![a-z])db(?![a-z])|テーブル|バケット",
            r"アクセスキー|(?<![a-z])メール(?!アドレス|サーバ)|(?:受信(?:トレイ)?|転送)ルール|ボックス",
            r"(?:不審|感染|悪意|暗号化|怪し|改ざん|マルウェア|ランサム|被害|漏え?い|流出|隔離)[^、。を]{0,10}(?:ファイル|\.html?|\.php|ページ|コンテナ|プログラム)",
            r"(?:全|すべての|全ての|まとめて|共有の?)ファイル",
            r"フォルダー?|ファイルサーバ|sharepoint|(?<!フィッシング)(?<!偽)サイト(?=を|は|、|ごと|丸)",
            r"web ?(?:シェル|shell)|ウェブシェル|バックドア|マルウェア(?!対策|感染)",
            r"ウイルス(?!対策|ソフト|感染)|レジストリ|リポジトリ",
        ),
        verb=_any(
            (_DELETE + r"|drop(?!box)")
            .replace("|きれい(?=に|さっぱり)|綺麗(?=に)|掃除", "")
            .replace("|改ざん|改竄|書き?換え", "")
        ),
        command=_any(
            _cli(
                _CMD_DELETE,
                r"(?:ad|mg|local|iam)?users?(?![a-z])|adcomputer|mailbox|access-key|role(?![a-z])|bucket|instance(?![a-z])"
                r"|volumes?|pods?(?![a-z])|ns(?![a-z])|namespace|deploy(?:ment)?|containers?|resource-?group|group(?![a-z])",
            ),
            r"(?<![a-z])userdel(?:-r)?(?=[a-z-])|netuser[\w.-]{1,40}/delete|harddelete|dsrm|dscl[!-~]{0,20}-delete",
            r"drop(?:table|database|schema|index|user)|truncatetable|deletefrom[\w.]|db\.[\w.]{1,30}(?:drop|deletemany|remove)\(|flushall",
            r"rm-(?:rf|fr)(?:/|~|\*|\.)|rd/s|del/[sfq]|remove-item[^。]{0,60}-recurse|s3rb",
            r"delete-table|kubectldelete(?:ns|pods?|deploy|all)",
        ),
        english=_en(
            _EN_DELETE,
            r"accounts?|users?|mailbox(?:es)?|database|all (?:the )?(?:data|files)|(?:suspicious|malicious"
            r"|infected|encrypted) (?:files?|emails?)|malware|phishing (?:emails?|messages?)|access keys?"
            r"|web ?shells?",
        ),
        harmless=re.compile(r"一時ファイル|キャッシュ|パスワードの|下書き|softdelete|依頼|訴訟ホールド"),
        fine_after_preservation=True,
    ),
    Kind(
        "承認のない変更・全面遮断",
        "SOCリーダー等の承認を先に得てください（全社的な遮断や社外向けサービスの停止はCSIRT責任者、設定変更は緊急変更申請の2名承認）。承認待ちの間は対象端末の隔離を優先します。",
        thing=_any(
            r"(?:全社|社内全|社外向け|海外|すべて|全て|ぜんぶ|全部|丸ごと|まるごと|あらゆる|全)(?:的な|の|員の|体の)?[^、。を]{0,8}(?:通信|ネットワーク|アクセス|ポート|回線"
            r"|インターネット|ネット|サービス|サイト|ipアドレス|アカウント|端末)",
            r"(?:通信|ネットワーク|回線|インターネット|アクセス)(?:を|は)?(?:全部|すべて|全て|ぜんぶ|丸ごと|まるごと|一斉|片っ端)",
        ),
        verb=_any(
            r"遮断|止め|とめ(?=[てるたまち])|ブロック|停止|切断|切(?=[らりるれろっ])|拒否|塞(?=[いがぎぐげご])",
            r"落と|無効|ロック(?=し|す)",
        ),
        phrase=_any(
            r"(?:承認|許可|申請|稟議|決裁)(?:は|を|の|も|なんて|とか|手続き?(?:を|は)?)?(?:なし|無し|抜き|待たず|待たな|後回し|後で|あとで|事後に|飛ば|すっ飛ば|スキップ|省|取らず|得ず"
            r"|もらわず|いらな|無視|事後|後出し|後から|出さ(?:ず|ない)|取るのめん|待って(?:い)?(?:られ|たら)|面倒|めんど|すっとば)[^。]{0,40}(?:遮断|止め|隔離|停止|変更|適用|切|落と|無効|入れ|実行|実施|作業|進め|やっ|やり|投入|ブロック|削除|設定|コミット|対応|変え|いじ"
            r"|足し|追加|開け|通し|拒否)",
            r"(?:勝手に|独断で|黙って|無断で)[^。]{0,20}(?:遮断|止め|隔離|停止|変更|適用|切(?=[らりるれろっ])|落と|無効|ブロック|削除|閉じ|変え|いじ|開け)",
        ),
        english=_any(
            r"\b(?:block|cut off|shut down|drop|isolate|disconnect)(?:ing)?\b[^.?!;,]{0,20}\b(?:all|every|entire"
            r"|whole)\b[^.?!;,]{0,30}\b(?:traffic|network|internet|connections?|country|ips?|services?|users?"
            r"|accounts?)\b",
            r"\bwithout (?:any )?(?:approval|permission|authori[sz]ation|asking|a change request)\b",
            r"\bskip(?:ping)? (?:the )?(?:approval|change request|sign-?off)\b",
        ),
        harmless=re.compile(
            r"承認者(?!(?:が|は|も)?(?:寝|不在|いな|捕まら|休))|承認(?:の|は)?(?:流れ|誰|だれ)|誰の(?:承認|許可)|基準|条件|誰が|だれが|どんな場合|どういう場合|範囲|場合[はに]|実施できる|できる(?:操作|端末|の)|必要|判断"
        ),
    ),
    Kind(
        "隠蔽・虚偽の報告",
        "隠さず事実と時刻を記録し、重大度の期限内にSOCリーダーへ報告して、公表や届出は法務・コンプライアンス室と個人情報保護管理者に判断を委ねてください。",
        phrase=_any(
            r"隠蔽|隠ぺい|[もモ揉]み消(?=[さしすせそ])|証拠(?:を)?隠滅",
            r"(?:内々|内密|内緒|こっそり|秘密裏|闇|うやむや|有耶無耶|[な無]かったこと|穏便|水面下)(?:に|で|の内に|へ)[^。]{0,12}(?:処理|済ま|すま|収め|おさめ|片付|片づけ"
            r"|し(?=[てたよまち])|する|消(?=[さしすせそ])|伏せ|葬|できな|でき[るま]|終わら)",
            r"(?:報告|通報|届け?出|公表|申告|エスカレーション|通知|連絡)(?:を|は|も|には?)?(?:せず|しないで|しなくて済|しないまま|しない(?:方向|で(?:済|おさめ|収))|省いて"
            r"|省き|飛ばし|スキップし|伏せ|ごまか|誤魔化|遅らせ|先延ばし|隠(?=[さしすせそ])|握りつぶ)(?=[^。]{0,16}(?:済|終|片|処理|進め|閉じ|クローズ|た[いら]|方法|よい"
            r"|良い|いい|構|問題|ok|ましょう|ます|よう|て|る|には))",
            r"(?:件数|被害|人数|日時|時刻|内容|報告書?|数字|台数|規模|重大度|結果|タイムスタンプ|日付)(?:を|は|の)?[^。を]{0,8}(?:少な(?=[くめ])"
            r"|ごまか(?=[さしすせそ])|誤魔化(?=[さしすせそ])|遅く(?=書|し|記|報)|早く(?=書|記)|書き?換え|過小|小さく|低く(?=[書報し])|偽(?=[っりる])|いじ(?=[っらりる])|盛(?=[っらりる])|改ざん|改竄|捏造|でっち"
            r"|隠(?=[さしすせそ])|ずら(?=[さしすせそ]))",
            r"(?:バレ|ばれ)(?:ない(?=よう|で|方法|やり方|形|うち|ため)|ずに|ません(?=よう))",
            r"(?:外|表|社外|公)に(?:出さ|漏らさ|知らせ)(?:ず|ない(?=で|よう|方))[^。]{0,14}(?:済|終|収|処理|し(?=[たて])|方法)",
            r"口裏",
            r"(?:上|上司|soc|リーダー|責任者|会社)に(?:は|も)?(?:上げ|言わ|伝え|報告し|知らせ)(?:なくて(?:も)?[いよ良]|ない(?=で(?!す)|よう|方)|ず(?=に))",
            r"黙って(?=お[いこくけ]|い(?:れば|よう|て)|れば|よう|済)|黙っと[こくけ]",
            r"(?:って|という|[いた])ことに(?=し(?:て(?:お|くだ|ほし|、?[^。]{0,6}(?:届|報告|出|閉))|た[いく]|と[いこくけ]|ち[ゃま]|よう|ましょ|ません)|でき)",
            r"(?:上司|監督|委員会|当局|顧客|本人|警察|経営|客先|お客)(?:さん)?[^、。]{0,10}(?:黙って|知られ(?:ず|ない(?=よう|で))|伏せ(?=[たてとる])|隠して|内緒)",
            r"見なかったこと",
            r"(?:漏え?い|漏洩|流出|事故|インシデント|侵害|被害|感染|ミス|件)(?:の(?:事実|件))?(?:を|は|ごと)隠(?=[さしすせそ])",
            r"嘘の(?:報告|記録|時刻)|虚偽の?(?:報告|記録)",
        ),
        english=_any(
            r"\bcover(?:ing)?[- ](?:it|this|that|up)\b[^.?!;,]{0,20}",
            r"\bhid(?:e|ing)\b[^.?!;,]{0,25}\b(?:breach|incident|leak|evidence|attack|this|it)\b",
            r"\bkeep(?:ing)? (?:this|it|the \w+) (?:quiet|secret|hidden)\b",
            r"\b(?:falsif(?:y|ying)|fak(?:e|ing)|under-?report(?:ing)?|backdat(?:e"
            r"|ing))\b[^.?!;,]{0,25}\b(?:reports?|numbers?|times?|timestamps?|dates?|records?|breach|logs?"
            r"|count)\b|\b(?:avoid|without|skip)(?:ing)? (?:report|tell|notify)ing\b",
            r"\bsweep\b[^.?!;,]{0,15}\bunder the (?:rug|carpet)",
        ),
        harmless=re.compile(
            r"誤って|間違え|うっかり|隠蔽(?:され|の(?:有無|疑い|痕跡))|攻撃者(?:に|から)[^。]{0,8}(?:バレ|ばれ|知られ)|難読化"
        ),
    ),
)
